"""A malformed message becomes a dead letter with the reason, and the worker goes on."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.system.ledger import wait_for

pytestmark = pytest.mark.story

strangers = (f"stranger-{n}" for n in itertools.count())
GOOD_HEADERS = {"task": "shop.work", "id": "1", "lang": "py"}
GOOD_BODY = json.dumps([[1], {}, {}])


@pytest.fixture(scope="module")
def inn(open_a_shop: Callable[..., Any]) -> Any:
    """One worker that no message must bring down."""
    shop = open_a_shop("shop")
    shop.worker("-P", "prefork", "-c", "1", url=shop.url()).ready()
    return shop


def message(
    *,
    headers: Any = None,
    body: Any = GOOD_BODY,
    kind: str = "application/json",
    encode: bool = True,
    **others: Any,
) -> bytes:
    """A message as kombu stores it, with one thing wrong."""
    body = base64.b64encode(body.encode()).decode() if encode else body
    properties = {"delivery_info": {"exchange": "", "routing_key": "celery"}, "priority": 0}
    properties["body_encoding"] = "base64"
    whole = {
        "body": body,
        "content-type": kind,
        "content-encoding": "utf-8",
        "headers": GOOD_HEADERS if headers is None else headers,
        "properties": properties,
    }
    return json.dumps({**whole, **others}).encode()


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in GOOD_HEADERS.items() if key != name}


BAD = {
    "no bytes at all": (b"", "unreadable"),
    "no JSON": (b"\xff\xfe nothing", "unreadable"),
    "another shape": (b'["a", "list"]', "unreadable"),
    "no headers": (message(headers=0), "not_a_task"),
    "no properties": (message(properties=None), "unreadable"),
    "no delivery info": (message(properties={"delivery_info": 7}), "unreadable|undecodable"),
    "no base64": (message(body="%%%", encode=False), "undecodable|unreadable|invalid_task"),
    "a body that is no text": (message(body={"a": 1}, encode=False), "unreadable"),
    "a body that is no JSON": (message(body="{"), "undecodable"),
    "no task": (message(headers={}, body=json.dumps({"hello": "world"})), "not_a_task"),
    "a task that is no name": (message(headers={**GOOD_HEADERS, "task": ["x"]}), "unreadable"),
    "no id": (message(headers=without("id")), "invalid_task"),
    "an eta that is no time": (message(headers={**GOOD_HEADERS, "eta": "soon"}), "invalid_task"),
    "pickle": (
        message(body="\x80\x04}\x94.", kind="application/x-python-serialize"),
        "invalid_task|undecodable",
    ),
    "a body of another shape": (message(body="[1, 2, 3]"), "invalid_task"),
    "a body that is too short": (message(body="[[1], {}]"), "invalid_task"),
    "a body that is a mapping": (message(body='{"n": 1}'), "invalid_task|not_a_task"),
    "a body that is a number": (message(body="7"), "invalid_task"),
    "arguments that are no list": (message(body='["abc", {}, {}]'), "invalid_task"),
    "keyword arguments by number": (message(body="[[1], [2], {}]"), "invalid_task"),
    "an unknown content type": (message(kind="application/x-parchment"), "invalid_task|undec"),
    "an unknown compression": (message(headers={**GOOD_HEADERS, "compression": "x"}), "unr|und"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_message_becomes_a_dead_letter(inn: Any, name: str) -> None:
    """Its reason says what was wrong; the next job runs on the same worker."""
    payload, expected = BAD[name]
    stranger = next(strangers)
    with inn.core() as core:
        core.publish(payload, queue="celery", workspace=stranger)

        [letter] = wait_for(lambda: core.dead.page(stranger))

    assert any(letter.reason.startswith(word) for word in expected.split("|")), letter.reason
    assert len(letter.reason) <= 500
    inn.ledger.forget()
    inn.publisher().send("work", 1, workspace=stranger)
    inn.ledger.wait("end", 1)
    assert inn.workers[0].process.poll() is None


def test_no_lease_is_left(inn: Any) -> None:
    """Afterwards no lease is held and no job waits."""

    def is_empty() -> bool:
        with inn.core() as core:
            stats = core.views.stats()
        running = sum(row.running for row in stats.workspaces)
        return bool(running == 0 and sum(stats.queues.values()) == 0)

    wait_for(is_empty)
