"""What a Dramatiq worker notes of the runs that end."""

from __future__ import annotations

import dramatiq

from fairqueue import FairQueue
from fairqueue_dramatiq import FairQueueMiddleware
from tests.integrations.dramatiq.conftest import Start, brokers
from tests.system.ledger import wait_for


def test_runs_that_end_are_kept(redis_url: str, namespace: str, start: Start) -> None:
    """With Dramatiq's id, the outcome, and the first line of the error."""
    middleware = FairQueueMiddleware(url=redis_url, namespace=namespace, history=9)
    for broker in brokers(middleware):

        @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=1)
        def work(fails: bool) -> None:
            if fails:
                raise ValueError("no such row\nmore")

        start(broker, threads=1)
        good, bad = work.send(False), work.send(True)
        with FairQueue(redis_url, namespace=namespace, brings_limits=False) as core:
            wait_for(lambda: len(core.history.list()) == 3)
            [of_good] = core.history.list(job_id=good.message_id)
            last, first = core.history.list(job_id=bad.message_id)
    assert (of_good.outcome, of_good.error, of_good.task) == ("succeeded", "", "work")
    assert (first.outcome, last.outcome) == ("retried", "failed")
    assert {first.error, last.error} == {"ValueError: no such row"}
