"""The keeper renews what is held, tells each loss once, and cannot be starved or deceived."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from fairqueue import FairQueue, Lease, LeaseKeeper, Renewed, StoreUnavailable
from fairqueue._stores.memory import MemoryStore
from fairqueue.testing import EmbeddedServer, embedded_redis

LEASE_SECONDS = 0.9


class Watched(MemoryStore):
    """Counts renewals, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[tuple[int, ...]] = []
        self.away = False

    def renew(self, progress: Sequence[tuple[int, float]], *, lease_seconds: float) -> Renewed:
        if self.away:
            raise StoreUnavailable("away")
        self.renewed.append(tuple(fence for fence, _ in progress))
        return super().renew(progress, lease_seconds=lease_seconds)

    def clone(self, *, timeout_seconds: float | None = None) -> Watched:
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


def _until(true: Callable[[], object], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def test_it_renews_all_in_one_call(queue: FairQueue, store: Watched, keeper: LeaseKeeper) -> None:
    """Leases are renewed each third of a lease, all together, and so outlive it."""
    leases = queue.claim(["q"], 3).leases
    since = time.monotonic()
    for lease in leases:
        keeper.hold(lease)
    _until(lambda: len(store.renewed) >= 6)
    assert time.monotonic() - since > 1.5 * LEASE_SECONDS
    assert set(store.renewed) == {tuple(lease.fence for lease in leases)}
    assert not any(keeper.is_lost(lease.fence) for lease in leases)
    assert keeper.failures == 0


def test_what_was_let_go_is_not_renewed(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """After let_go a lease is the store's alone."""
    first, second, _ = queue.claim(["q"], 3).leases
    keeper.hold(first)
    keeper.hold(second)
    _until(lambda: store.renewed)
    keeper.let_go(first.fence)
    store.renewed.clear()
    _until(lambda: len(store.renewed) > 1)
    assert store.renewed[-1] == (second.fence,)
    assert keeper.deadline(first.fence) is None


def test_a_cancel_is_told_once(queue: FairQueue, keeper: LeaseKeeper) -> None:
    """Who holds a cancelled job is told by the next renewal, one time; its lease goes on."""
    (lease, *_) = queue.claim(["q"], 1).leases
    told: list[str] = []
    keeper.hold(lease, on_cancelled=lambda lease: told.append(lease.job.id))
    queue.cancel("a")
    _until(lambda: told)
    time.sleep(LEASE_SECONDS)
    assert told == ["a"]
    assert keeper.is_cancelled(lease.fence)
    assert not keeper.is_lost(lease.fence)


def test_a_loss_is_told_once(queue: FairQueue, keeper: LeaseKeeper) -> None:
    """Who holds a lease that the store gave away is told, by name, one time."""
    (lease, *_) = queue.claim(["q"], 1).leases
    told: list[str] = []
    keeper.hold(lease, on_lost=lambda lease: told.append(lease.job.id))
    queue.release(lease)
    _until(lambda: told)
    time.sleep(LEASE_SECONDS)
    assert told == ["a"]
    assert keeper.is_lost(lease.fence)


def test_an_early_acked_job_is_never_told(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """One that nobody else will run goes on whatever happens to its lease; it is counted."""
    first, second = queue.claim(["q"], 2).leases
    told: list[Lease] = []
    keeper.hold(first, redeliver=False, on_lost=told.append)
    keeper.hold(second, on_lost=told.append)
    keeper.no_redelivery(second.fence)
    queue.release(first)
    queue.release(second)
    _until(lambda: keeper.unleased == 2)
    store.away = True
    time.sleep(LEASE_SECONDS)
    assert told == []


def test_an_outage_within_the_lease_loses_nothing(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """A failed renewal is tried again soon enough for the lease to live on."""
    (lease,) = queue.claim(["q"]).leases
    told: list[Lease] = []
    keeper.hold(lease, on_lost=told.append)
    store.away = True
    _until(lambda: keeper.failures)
    store.away = False
    _until(lambda: store.renewed)
    time.sleep(LEASE_SECONDS)
    assert told == []
    queue.ack(lease)


def test_an_outage_beyond_the_lease_is_told_in_time(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """A lease that could not be renewed is lost just before its end, whatever the store thinks."""
    (lease,) = queue.claim(["q"]).leases
    told: list[float] = []
    keeper.hold(lease, on_lost=lambda _: told.append(time.monotonic()))
    store.away = True
    _until(lambda: told)
    end = lease.received_monotonic + LEASE_SECONDS
    assert end - LEASE_SECONDS / 10 < told[0] < end + LEASE_SECONDS / 2


def test_one_callback_that_raises_harms_nobody(queue: FairQueue, keeper: LeaseKeeper) -> None:
    """A failing on_lost neither ends the thread nor keeps the others from being told."""
    first, second = queue.claim(["q"], 2).leases
    told: list[Lease] = []

    def fail(_: Lease) -> None:
        raise RuntimeError("no")

    keeper.hold(first, on_lost=fail)
    keeper.hold(second, on_lost=told.append)
    queue.release(first)
    queue.release(second)
    _until(lambda: told)
    (third,) = queue.claim(["q"]).leases
    keeper.hold(third, on_lost=told.append)
    queue.release(third)
    _until(lambda: len(told) == 2)


def test_worker_seconds_count_from_the_start_of_the_job(
    queue: FairQueue, keeper: LeaseKeeper
) -> None:
    """A job that has not started has used nothing, however long it has been held."""
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


def test_it_can_be_stopped_and_started(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """After stop nothing is renewed; the next hold starts it again."""
    (first,) = queue.claim(["q"]).leases
    keeper.hold(first)
    _until(lambda: store.renewed)
    keeper.stop()
    time.sleep(0.05)
    store.renewed.clear()
    time.sleep(LEASE_SECONDS)
    assert store.renewed == []
    (second,) = queue.claim(["q"]).leases
    keeper.hold(second)
    _until(lambda: store.renewed)


def test_two_holds_at_once_start_one_thread(queue: FairQueue, keeper: LeaseKeeper) -> None:
    """However many threads hold their first lease at once, one keeper runs."""
    leases = queue.claim(["q"], 3).leases
    before = set(threading.enumerate())
    threads = [threading.Thread(target=keeper.hold, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    new = set(threading.enumerate()) - before
    assert sorted(thread.name for thread in new) == ["fairqueue-keeper", "fairqueue-watch"]


def test_a_fork_leaves_its_parents_leases_alone(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper
) -> None:
    """A child keeps its own leases only, with a thread of its own, whatever locks were held."""
    first, second = queue.claim(["q"], 2).leases
    keeper.hold(first)
    parents = keeper._stopped
    assert parents is not None
    with keeper._lock:  # as a parent's thread may hold it at the fork
        keeper._pid = os.getpid() + 1  # as a child finds it
        keeper.hold(second)
    parents.set()  # a fork leaves them behind
    assert keeper.deadline(first.fence) is None
    store.renewed.clear()
    _until(lambda: (second.fence,) in store.renewed)


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server that can be made silent."""
    with embedded_redis() as server:
        yield server


def test_a_silent_server_cannot_hide_a_loss(server: EmbeddedServer) -> None:
    """Where the server accepts calls and never answers, the loss is told when the lease ends."""
    with FairQueue(server.url, lease_seconds=LEASE_SECONDS) as queue:
        queue.publish(b"x", queue="q")
        (lease,) = queue.claim(["q"]).leases
        keeper, told = LeaseKeeper(queue), []
        keeper.hold(lease, on_lost=lambda _: told.append(time.monotonic()))
        _until(lambda: (keeper.deadline(lease.fence) or 0) > lease.received_monotonic + 0.7)
        server.freeze()
        try:
            _until(lambda: told, 3 * LEASE_SECONDS)
        finally:
            server.thaw()
            keeper.stop()
        assert told[0] - (keeper.deadline(lease.fence) or 0) < LEASE_SECONDS / 2


FORK = """
import os, sys, time
from fairqueue import FairQueue, LeaseKeeper

queue = FairQueue(sys.argv[1], lease_seconds=0.6)
for name in "ab":
    queue.publish(b"x", queue="q", job_id=name)
keeper = LeaseKeeper(queue)
(lease,) = queue.claim(["q"]).leases
keeper.hold(lease)
child = os.fork() == 0
if child:
    (lease,) = queue.claim(["q"]).leases
    keeper.hold(lease)
time.sleep(1.5)
queue.ack(lease)
os.write(1, f"{lease.job.id} {keeper.is_lost(lease.fence)}\\n".encode())
if not child:
    os.wait()
"""


def test_a_real_fork_keeps_by_itself(server: EmbeddedServer) -> None:
    """Parent and child, one forked from the other, each renew what they hold."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", FORK, server.url]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(done.stdout.splitlines()) == ["a False", "b False"]
