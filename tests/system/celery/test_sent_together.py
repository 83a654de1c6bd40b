"""Groups, chords, chunks and batches that a producer sends in few calls, with real workers."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery import chain, chord, group

import fairqueue_celery

LARGE = 130
"""More than one call takes."""


def ran(shop: Any, n: int) -> Counter[int]:
    """How often each task ran, once this many have."""
    shop.ledger.wait("end", n)
    return Counter(row["n"] for row in shop.ledger.lines("end"))


def once(numbers: range) -> Counter[int]:
    return Counter(numbers)


def test_what_is_sent_together_runs_once(shop: Any) -> None:
    """A large group, with its results in order; a large chord; a chain to a group; a batch.

    And a chord whose header waits for the results of its own first tasks while it is made.
    """
    publisher = shop.open(results=True)
    work = [publisher.signature("work", n, workspace="ada", immutable=True) for n in range(LARGE)]
    assert group(work).apply_async().get(timeout=60) == list(range(LARGE))
    assert ran(shop, LARGE) == once(range(LARGE))
    chord(work)(publisher.signature("add_up", workspace="ada"))
    shop.ledger.wait("sum", 1)
    assert shop.ledger.lines("sum")[0]["total"] == sum(range(LARGE))
    chain(work[0], group(work[1:4])).apply_async()
    shop.ledger.wait("end", 2 * LARGE + 4)
    with fairqueue_celery.batch(publisher.app):
        results = [publisher.send("work", n, workspace="bea") for n in range(3)]
    assert [result.get(timeout=60) for result in results] == [0, 1, 2]
    shop.ledger.forget()

    def stepwise() -> Iterator[Any]:
        for n in range(6):
            if n > 3:  # Celery makes up to four before it sends one
                shop.ledger.wait("end", n - 3, seconds=20)
            yield work[n]

    chord(stepwise(), publisher.signature("add_up", workspace="ada")).apply_async()
    shop.ledger.wait("sum", 1)
    assert shop.ledger.lines("sum")[0]["total"] == sum(range(6))
    with shop.core() as core:
        assert core.depth("celery") == 0


def test_the_event_of_a_task_follows_its_publish(shop: Any, redis_client: redis.Redis) -> None:
    """Each task that is stored has one, those that are refused have none."""
    url = shop.url(workspace_capacity=3)
    publisher = shop.publisher(url, task_send_sent_event=True)
    listener = redis_client.pubsub(ignore_subscribe_messages=True)
    listener.psubscribe("*celeryev*")
    listener.get_message(timeout=1)
    with pytest.raises(fairqueue_celery.BatchRefused), fairqueue_celery.batch(publisher.app):
        ids = [publisher.send("work", n, workspace="ada").id for n in range(5)]
    events = []
    while message := listener.get_message(timeout=1):
        events.append(json.loads(base64.b64decode(json.loads(message["data"])["body"])))
    listener.close()
    sent = [one["uuid"] for one in events if one.get("type") == "task-sent"]
    assert [uuid for uuid in sent if uuid in ids] == ids[:3]
