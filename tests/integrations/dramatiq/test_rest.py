"""How a worker's leading thread waits: it wakes for work, and keeps no wake-up for itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fairqueue import FairQueue
from fairqueue_dramatiq.nudge import Rest

QUEUES = ("mails",)


@pytest.fixture(params=["memory", "redis"])
def core(request: pytest.FixtureRequest, namespace: str) -> Iterator[FairQueue]:
    """Each store."""
    memory = request.param == "memory"
    url = f"memory://{namespace}" if memory else str(request.getfixturevalue("redis_url"))
    with FairQueue(url, namespace=namespace) as core:
        yield core


@pytest.fixture
def rest(core: FairQueue) -> Iterator[Rest]:
    rest = Rest(core)
    yield rest
    rest.close()


def test_work_wakes(core: FairQueue, rest: Rest) -> None:
    """A publish ends the wait of an idle worker."""
    publishing = threading.Timer(0.05, lambda: core.publish(b"", queue="mails"))
    publishing.start()
    assert rest.rest_or_wake(QUEUES, 10, 10)
    publishing.join()


def test_a_nudge_wakes(rest: Rest) -> None:
    """Also one that came before."""
    rest.nudge()
    began = time.monotonic()
    assert not rest.rest(10)
    rest.nudge()
    assert not rest.rest_or_wake(QUEUES, 10, 10)
    assert time.monotonic() - began < 5


def test_a_wake_up_that_comes_to_a_busy_worker_is_passed_on(core: FairQueue, rest: Rest) -> None:
    """It had waited while it was idle; its next claim, of nothing, wakes another."""
    assert not rest.rest_or_wake(QUEUES, 0.01, 10)
    core.publish(b"", queue="mails")
    assert rest.rest(10), "told that it has somebody's wake-up"
    other = core.waiter(QUEUES)
    other.arm(10)
    core.claim(QUEUES, 0)
    assert other.collect()
    other.close()
    assert not rest.rest(0.01)


def test_a_wake_up_is_given_back_by_who_leaves(core: FairQueue, rest: Rest) -> None:
    """As when its worker stops."""
    assert not rest.rest_or_wake(QUEUES, 0.01, 10)
    core.publish(b"", queue="mails")
    rest.leave()
    assert core.waiter(QUEUES).wait(60)


def test_time_is_kept_by_who_waits_already(core: FairQueue, rest: Rest) -> None:
    """What is due sooner than when it began to wait is looked at in time."""
    assert not rest.rest_or_wake(QUEUES, 0.01, 60)
    began = time.monotonic()
    rest.rest_or_wake(QUEUES, 60, 0.05)
    assert time.monotonic() - began < 10
