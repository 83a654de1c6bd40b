"""The keeper renews held leases, reports each loss once, and cannot be starved."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from fairqueue import FairQueue, Lease, StoreUnavailable
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import LeaseKeeper, Renewed
from fairqueue.testing import EmbeddedServer
from tests.out_of_threads import out_of_threads
from tests.system.ledger import wait_for

LEASE_SECONDS = 0.9


class Watched(Store):
    """Counts renewals, and can be made unavailable."""

    def __init__(self) -> None:
        super().__init__(MemoryEngine())
        self.renewed: list[tuple[int, ...]] = []
        self.away = False
        self.failing: frozenset[int] = frozenset()

    def renew(
        self, progress: Sequence[tuple[int, float]], *, owner: str, lease_seconds: float
    ) -> Renewed:
        if self.away:
            raise StoreUnavailable("away")
        self.renewed.append(tuple(fence for fence, _ in progress))
        sound = [each for each in progress if each[0] not in self.failing]
        renewed = super().renew(sound, owner=owner, lease_seconds=lease_seconds)
        return renewed._replace(failed=self.failing)

    def clone(self, **_: object) -> Watched:
        return self


@pytest.fixture
def store() -> Watched:
    """A store in this process, on the real clock."""
    return Watched()


@pytest.fixture
def queue(store: Watched) -> FairQueue:
    """A queue with three jobs and short leases."""
    queue = FairQueue(store=store, lease_seconds=LEASE_SECONDS)
    for name in "abc":
        queue.publish(b"x", queue="q", workspace="w", job_id=name)
    return queue


@pytest.fixture
def keeper(queue: FairQueue) -> Iterator[LeaseKeeper]:
    """A keeper of it."""
    keeper = LeaseKeeper(queue)
    yield keeper
    keeper.stop()


def test_a_lease_that_cannot_be_renewed_ends_alone(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """It is tried again, sooner than others are, and is lost in time; the others live on."""
    leases = queue.claim(["q"], 3).leases
    store.failing = frozenset({leases[0].fence})
    lost: list[Lease] = []
    for lease in leases:
        keeper.hold(lease, on_lost=lost.append)
    wait_for(lambda: lost)
    renewals = len(store.renewed)
    wait_for(lambda: len(store.renewed) >= renewals + 4)
    assert [lease.fence for lease in lost] == [leases[0].fence]


def test_it_renews_all_in_one_call(queue: FairQueue, store: Watched, keeper: LeaseKeeper) -> None:
    """Leases are renewed each third of a lease, all together, and so outlive it."""
    leases = queue.claim(["q"], 3).leases
    since = time.monotonic()
    for lease in leases:
        keeper.hold(lease)
    wait_for(lambda: len(store.renewed) >= 6)
    assert time.monotonic() - since > 1.5 * LEASE_SECONDS
    assert set(store.renewed) == {tuple(lease.fence for lease in leases)}
    assert not any(keeper.is_lost(lease.fence) for lease in leases)


def test_its_threads_end_while_it_holds_nothing(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """After some beats without a lease both are gone; the next lease is renewed by others."""
    (first,) = queue.claim(["q"]).leases
    before = set(threading.enumerate())
    keeper.hold(first)
    assert len(set(threading.enumerate()) - before) == 2
    wait_for(lambda: store.renewed)
    keeper.forget(first.fence)
    wait_for(lambda: not set(threading.enumerate()) - before)
    (second,) = queue.claim(["q"]).leases
    keeper.hold(second)
    wait_for(lambda: (second.fence,) in store.renewed)


def test_threads_that_could_not_be_started_are_started_by_the_next_lease(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """A system may be out of threads for a moment, while those of an idle keeper have ended."""
    first, second, _ = queue.claim(["q"], 3).leases
    with out_of_threads(), pytest.raises(RuntimeError):
        keeper.hold(first)
    keeper.hold(second)
    wait_for(lambda: store.renewed)


def test_a_forgotten_lease_is_not_renewed(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """After ``forget`` a lease is not renewed, and has no deadline."""
    first, second, _ = queue.claim(["q"], 3).leases
    keeper.hold(first)
    keeper.hold(second)
    wait_for(lambda: store.renewed)
    keeper.forget(first.fence)
    store.renewed.clear()
    wait_for(lambda: len(store.renewed) > 1)
    assert store.renewed[-1] == (second.fence,)
    assert keeper.deadline(first.fence) is None


def test_a_cancel_is_reported_once(queue: FairQueue, keeper: LeaseKeeper) -> None:
    """The next renewal reports a cancelled job, once; its lease is still renewed."""
    (lease, *_) = queue.claim(["q"], 1).leases
    reported: list[str] = []
    keeper.hold(lease, on_cancelled=lambda lease: reported.append(lease.job.id))
    queue.jobs.cancel("a")
    wait_for(lambda: reported)
    time.sleep(LEASE_SECONDS)
    assert reported == ["a"]
    assert keeper.is_cancelled(lease.fence)
    assert not keeper.is_lost(lease.fence)


def test_a_loss_is_reported_once(queue: FairQueue, keeper: LeaseKeeper) -> None:
    """``on_lost`` is called once with a lease that the store no longer knows."""
    (lease, *_) = queue.claim(["q"], 1).leases
    reported: list[str] = []
    keeper.hold(lease, on_lost=lambda lease: reported.append(lease.job.id))
    queue.release(lease)
    wait_for(lambda: reported)
    time.sleep(LEASE_SECONDS)
    assert reported == ["a"]
    assert keeper.is_lost(lease.fence)


def test_the_loss_of_an_early_acked_job_is_not_reported(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """A job that no other worker will run keeps running without its lease; it is counted."""
    first, second = queue.claim(["q"], 2).leases
    reported: list[Lease] = []
    keeper.hold(first, redeliver=False, on_lost=reported.append)
    keeper.hold(second, on_lost=reported.append)
    keeper.no_redelivery(second.fence)
    queue.release(first)
    queue.release(second)
    wait_for(lambda: keeper.is_lost(first.fence) and keeper.is_lost(second.fence))
    store.away = True
    time.sleep(LEASE_SECONDS)
    assert reported == []


def test_a_run_that_is_over_is_reported_from_the_second_beat_on(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """The report of its end may be under way in the first; a run that goes on is not reported."""
    first, second, third = queue.claim(["q"], 3).leases
    orphans: list[str] = []
    asked: list[str] = []

    def is_over(name: str, *, over: bool) -> bool:
        asked.append(name)
        return over

    for lease, over in ((first, True), (second, False)):
        keeper.hold(
            lease,
            is_over=partial(is_over, lease.job.id, over=over),
            on_orphaned=lambda lease: orphans.append(f"{lease.job.id}{asked.count('a')}"),
        )
    keeper.hold(third)
    wait_for(lambda: orphans)
    assert orphans[0] == "a2"
    assert keeper.is_orphaned(first.fence)
    assert not keeper.is_orphaned(second.fence)
    wait_for(lambda: asked.count("b") >= 4)
    assert {name[0] for name in orphans} == {"a"}
    assert all(set(renewed) >= {second.fence, third.fence} for renewed in store.renewed)


def test_a_pool_that_cannot_be_asked_does_no_harm(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """Its leases are renewed as before."""
    (lease,) = queue.claim(["q"]).leases
    orphans: list[Lease] = []

    def fail() -> bool:
        raise RuntimeError("no")

    keeper.hold(lease, is_over=fail, on_orphaned=orphans.append)
    wait_for(lambda: len(store.renewed) >= 3)
    assert orphans == []


def test_an_outage_beyond_the_lease_is_reported_in_time(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """A lease that could not be renewed is reported as lost just before it expires."""
    (lease,) = queue.claim(["q"]).leases
    reported: list[float] = []
    keeper.hold(lease, on_lost=lambda _: reported.append(time.monotonic()))
    store.away = True
    wait_for(lambda: reported)
    end = lease.received_monotonic + LEASE_SECONDS
    assert end - LEASE_SECONDS / 10 < reported[0] < end + LEASE_SECONDS / 2


def test_a_callback_that_raises_does_no_harm(queue: FairQueue, keeper: LeaseKeeper) -> None:
    """A failing on_lost neither ends the thread nor suppresses other reports."""
    first, second = queue.claim(["q"], 2).leases
    reported: list[Lease] = []

    def fail(_: Lease) -> None:
        raise RuntimeError("no")

    keeper.hold(first, on_lost=fail)
    keeper.hold(second, on_lost=reported.append)
    queue.release(first)
    queue.release(second)
    wait_for(lambda: reported)
    (third,) = queue.claim(["q"]).leases
    keeper.hold(third, on_lost=reported.append)
    queue.release(third)
    wait_for(lambda: len(reported) == 2)


def test_worker_seconds_count_from_the_start_of_the_job(
    queue: FairQueue, keeper: LeaseKeeper
) -> None:
    """A job that has not started has used no worker-seconds, however long it was held."""
    (lease,) = queue.claim(["q"]).leases
    keeper.hold(lease)
    assert keeper.seconds(lease.fence) == 0.0
    keeper.started(lease.fence)
    since = time.monotonic()
    keeper.started(lease.fence)
    time.sleep(0.05)
    assert 0.05 <= keeper.seconds(lease.fence) <= time.monotonic() - since + 0.01


def test_a_busy_main_thread_does_not_starve_it(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """While the main thread computes without a pause, leases are renewed."""
    (lease,) = queue.claim(["q"]).leases
    keeper.hold(lease)
    until = time.monotonic() + 2 * LEASE_SECONDS
    total = 0
    while time.monotonic() < until:
        total += sum(range(1000))
    assert len(store.renewed) >= 3
    queue.ack(lease)


def test_a_silent_server_cannot_hide_a_loss(own_server: EmbeddedServer) -> None:
    """If the server accepts calls and never answers, the loss is reported when the lease ends."""
    with FairQueue(own_server.url, lease_seconds=LEASE_SECONDS) as queue:
        queue.publish(b"x", queue="q")
        (lease,) = queue.claim(["q"]).leases
        keeper, reported = LeaseKeeper(queue), []
        keeper.hold(lease, on_lost=lambda _: reported.append(time.monotonic()))
        wait_for(lambda: (keeper.deadline(lease.fence) or 0) > lease.received_monotonic + 0.7)
        own_server.freeze()
        try:
            wait_for(lambda: reported, seconds=3 * LEASE_SECONDS)
        finally:
            own_server.thaw()
            keeper.stop()
        assert reported[0] - (keeper.deadline(lease.fence) or 0) < LEASE_SECONDS / 2


FORK = """
import os, sys, time
from fairqueue import FairQueue
from fairqueue.adapters import LeaseKeeper

queue = FairQueue(sys.argv[1], lease_seconds=2)
for name in "ab":
    queue.publish(b"x", queue="q", job_id=name)
keeper = LeaseKeeper(queue)
(lease,) = queue.claim(["q"]).leases
keeper.hold(lease)
child = os.fork() == 0
if child:
    (lease,) = queue.claim(["q"]).leases
    keeper.hold(lease)
time.sleep(3)
queue.ack(lease)
os.write(1, f"{lease.job.id} {keeper.is_lost(lease.fence)}\\n".encode())
if not child:
    os.wait()
"""


def test_a_forked_child_renews_its_own_leases(own_server: EmbeddedServer) -> None:
    """A parent and its child each renew what they hold."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", FORK, own_server.url]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stdout.splitlines()) == ["a False", "b False"]
