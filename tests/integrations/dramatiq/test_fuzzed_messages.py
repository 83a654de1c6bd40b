"""Whatever a producer writes into a message, the job ends, and the worker goes on."""

from __future__ import annotations

import copy
import json
import random
import secrets
from collections.abc import Iterator
from typing import Any

import dramatiq
from dramatiq.middleware import AgeLimit
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

from fairqueue import FairQueue
from fairqueue_dramatiq import FairQueueMiddleware
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for
from tests.wrong_values import WRONG

SEED = 12


OPTIONS = [
    "retries", "max_retries", "min_backoff", "max_backoff", "time_limit", "max_age", "eta",
    "pipe_target", "pipe_ignore", "group_callbacks", "group_completion_uuid", "on_success",
    "on_failure", "traceback", "redis_message_id", "broker_priority", "requeue_timestamp",
    "workspace", "unique_key", "unique_for", "expires", "store_results", "result_ttl", "throws",
    "retry_when", "notify_shutdown",
]  # fmt: skip

GOOD: dict[str, Any] = {
    "queue_name": "default", "actor_name": "work", "args": [1], "kwargs": {}, "message_id": "m1",
    "options": {}, "message_timestamp": 1_700_000_000_000,
}  # fmt: skip


def fuzzed() -> Iterator[bytes]:
    for name in GOOD:
        for value in WRONG:
            yield json.dumps({**copy.deepcopy(GOOD), name: value}).encode()
        yield json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()
    for name in OPTIONS:
        for value in WRONG:
            yield json.dumps({**GOOD, "options": {name: value}}).encode()
    yield from (b"", b"null", b"[]", b"\xff", b"[" * 100_000)


def test_no_message_brings_a_worker_down(start: Start) -> None:
    """Each job is done, retried or a dead letter; every thread lives and runs the next job."""
    url = f"memory://fuzz-{secrets.token_hex(6)}"
    ran: list[Any] = []
    payloads = list(fuzzed())
    random.Random(SEED).shuffle(payloads)
    middleware = FairQueueMiddleware(url=url, unknown_task_returns=0, max_deliveries=2)
    for broker in brokers(middleware):
        broker.add_middleware(Results(backend=StubBackend()))
        assert any(isinstance(each, AgeLimit) for each in broker.middleware)

        @dramatiq.actor(max_retries=0)
        def work(n: Any = 0) -> None:
            ran.append(n)

        with FairQueue(url) as core:
            for payload in payloads:
                core.publish(payload, queue="default", workspace="stranger")
            worker = start(broker, threads=2)

            def is_over() -> bool:
                rows = {row.workspace: row for row in core.views.stats().workspaces}
                row = rows.get("stranger")
                return row is None or not (row.waiting or row.running)

            wait_for(is_over, seconds=30)
            ran.clear()
            work.send(1000)
            wait_for(lambda: 1000 in ran, seconds=20)
            assert all(thread.is_alive() for thread in worker.workers)
            assert all(thread.is_alive() for thread in worker.consumers.values())
            reasons = [letter.reason for letter in core.dead.page("stranger")]
    assert all(reason and len(reason) <= 500 for reason in reasons)
