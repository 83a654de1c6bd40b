"""A worker's leading thread wakes up for jobs and passes wake-ups on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fairqueue import FairQueue
from fairqueue._stores.redis import waiter
from fairqueue._stores.redis.waiter import RedisWaiter
from fairqueue_dramatiq._wakeup import WakePipe

QUEUES = ("mails",)


@pytest.fixture(params=["memory", "redis"])
def core(request: pytest.FixtureRequest, namespace: str) -> Iterator[FairQueue]:
    """A core queue on memory and on Redis."""
    memory = request.param == "memory"
    url = f"memory://{namespace}" if memory else str(request.getfixturevalue("redis_url"))
    with FairQueue(url, namespace=namespace) as core:
        yield core


@pytest.fixture
def pipe(core: FairQueue) -> Iterator[WakePipe]:
    pipe = WakePipe(core)
    yield pipe
    pipe.close()


def test_a_wait_that_is_never_answered_is_given_up(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is over a new connection, and hears of jobs."""
    arm = RedisWaiter.arm
    with FairQueue(redis_url, namespace=namespace) as core, monkeypatch.context() as deaf:
        pipe = WakePipe(core)
        deaf.setattr(waiter, "SLACK_SECONDS", 0.05)
        deaf.setattr("fairqueue._stores.sharded.waiter.SLACK_SECONDS", 0.0)
        deaf.setattr(waiter, "LEAST_SECONDS", 0)
        deaf.setattr(RedisWaiter, "arm", lambda self, _: arm(self, 0))  # for ever
        assert not pipe.wait_for_jobs(("nothing",), 0.1, 0.1)
        deaf.undo()
        pipe.queues = QUEUES  # as if the wait had been for these
        core.publish(b"", queue="mails")
        assert pipe.wait_for_jobs(QUEUES, 10, 10)
        pipe.close()


def test_another_thread_can_wake_the_thread(pipe: WakePipe) -> None:
    """This also holds if it does so before the wait begins."""
    pipe.wake()
    began = time.monotonic()
    assert not pipe.wait(10)
    pipe.wake()
    assert not pipe.wait_for_jobs(QUEUES, 10, 10)
    assert time.monotonic() - began < 5


def test_a_busy_worker_passes_a_wake_up_on(core: FairQueue, pipe: WakePipe) -> None:
    """It started to wait while idle; its next claim, of no job, wakes another worker."""
    assert not pipe.wait_for_jobs(QUEUES, 0.01, 10)
    core.publish(b"", queue="mails")
    assert pipe.wait(10), "it has a wake-up to pass on"
    other = core.waiter(QUEUES)
    other.arm(10)
    core.claim(QUEUES, 0)
    assert other.collect()
    other.close()
    assert not pipe.wait(0.01)


def test_a_wait_is_shortened_for_an_earlier_job(core: FairQueue, pipe: WakePipe) -> None:
    """This holds even if the waiter was armed for longer."""
    assert not pipe.wait_for_jobs(QUEUES, 0.01, 60)
    began = time.monotonic()
    pipe.wait_for_jobs(QUEUES, 60, 0.05)
    assert time.monotonic() - began < 10
