"""Whatever a producer writes into a message, the job ends, and the worker goes on."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.system.ledger import wait_for
from tests.wrong_values import WRONG, nested

SEED = 12
PER_FIELD = 2
"""Wrong values of each field that one run tries, of those below."""


BY_FIELD = {"task": [None, 7, True, [], {}, ["x"], nested(list)]}
"""A name that is only unknown is another matter."""

LIMITS = [{}, {"a": 1, "b": 2}, "ab", 7, [1], [1, 2, 3], ["1", None], [float("nan"), 1], [-1, -1]]

FIELDS: dict[str, Any] = {
    "lang": "py", "task": "shop.work", "id": "1", "shadow": None, "eta": None, "expires": None,
    "group": None, "group_index": None, "retries": 0, "timelimit": [None, None], "root_id": "1",
    "parent_id": None, "argsrepr": "(1,)", "kwargsrepr": "{}", "origin": "me",
    "ignore_result": False, "replaced_task_nesting": 0, "stamped_headers": None, "stamps": {},
    "workspace": "ada", "redelivered": False, "compression": None, "reply_to": None,
}  # fmt: skip
PROPERTIES = {
    "correlation_id": "1", "reply_to": "r", "delivery_mode": 2, "priority": 0,
    "body_encoding": "base64", "delivery_tag": "t", "content_type": "application/json",
    "delivery_info": {"exchange": "", "routing_key": "celery"}, "fairqueue": None,
}  # fmt: skip
EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
OLD = {**FIELDS, **EMBED, "args": [1], "kwargs": {}, "utc": True, "taskset": None}
NO_MESSAGES = [b"", b"\xff\xfe nothing", b'["another", "shape"]']
REASONS = {"unreadable", "undecodable", "invalid_task", "not_a_task"}


def message(protocol: int) -> dict[str, Any]:
    body: Any = [[1], {}, dict(EMBED)] if protocol == 2 else dict(OLD)
    return {
        "body": body,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": dict(FIELDS) if protocol == 2 else {},
        "properties": copy.deepcopy(PROPERTIES),
    }


def places(whole: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Every field of a message: what holds it, and its name there."""
    for name in list(whole):
        yield whole, name
    for part in ("headers", "properties", "body"):
        inner = whole[part]
        yield from ((inner, name) for name in (inner if isinstance(inner, dict) else range(3)))
    yield from ((whole["properties"]["delivery_info"], name) for name in ("exchange",))
    if isinstance(whole["body"], list):
        yield from ((whole["body"][2], name) for name in EMBED)


def encoded(whole: dict[str, Any]) -> bytes:
    if not isinstance(whole["body"], str):
        body = json.dumps(whole["body"]).encode()
        whole["body"] = base64.b64encode(body).decode()
    return json.dumps(whole).encode()


def fuzzed(chance: random.Random) -> Iterator[bytes]:
    for protocol in (1, 2):
        for index in range(len(list(places(message(protocol))))):
            name = list(places(message(protocol)))[index][1]
            wrong = LIMITS if name == "timelimit" else BY_FIELD.get(str(name), WRONG)
            for value in chance.sample(wrong, min(len(wrong), PER_FIELD)):
                whole = message(protocol)
                holder, name = list(places(whole))[index]
                holder[name] = value
                yield encoded(whole)
            if protocol == 1 and name == "timelimit":
                for value in LIMITS:
                    yield encoded({**message(1), "body": {**OLD, "timelimit": value}})
                    yield encoded({**message(1), "headers": {"timelimit": value}})
                    hybrid = {"headers": {"task": "shop.work", "id": "1"}}
                    yield encoded({**message(1), **hybrid, "body": {**OLD, "timelimit": value}})


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_no_message_brings_a_worker_down(shop: Any, pool: str) -> None:
    """Each job is done, or a dead letter with its reason; the worker goes on, and holds no slot."""
    url = shop.url(unknown_task_returns=0, max_deliveries=2, workspace_concurrency=3)
    shop.config = {"result_backend": url, "task_track_started": True}
    worker = shop.worker("-P", pool, "-c", "2", "-E", url=url).ready()
    payloads = [*NO_MESSAGES, *fuzzed(random.Random(SEED))]
    random.Random(SEED).shuffle(payloads)
    with shop.core() as core:
        for payload in payloads:
            core.publish(payload, queue="celery", workspace="stranger")

        def left() -> Any:
            row = shop.row("stranger")
            return row and (row.waiting + row.scheduled, row.running)

        def is_over() -> bool:
            assert worker.process.poll() is None, worker.log.read_text()[-3000:]
            return left() in (None, (0, 0))

        wait_for(is_over, seconds=40)
        reasons = [letter.reason for letter in core.dead.page("stranger")]
        shop.publisher(url).send("work", 1000, workspace="ada")
        shop.ledger.wait("end", 1, n=1000, seconds=20)

    assert worker.process.poll() is None
    assert all(reason and len(reason) <= 500 for reason in reasons)
    assert len(reasons) > len(payloads) / 4
    assert {reason.partition(":")[0] for reason in reasons} >= REASONS


def test_what_the_worker_does_wrong_makes_no_dead_letter(shop: Any) -> None:
    """Threads cannot be scaled: Celery ends such a worker, and its jobs stay."""
    worker = shop.worker("-P", "threads", "--autoscale", "3,1", url=shop.url()).ready()
    for n in range(6):
        shop.publisher().send("work", n, workspace="ada", kwargs={"seconds": 0.5})

    assert worker.process.wait(20) != 0
    assert "has no attribute 'grow'" in worker.log.read_text()
    row = shop.row("ada")
    assert (row.running, row.dead) == (0, 0)
    assert row.waiting >= 4
