"""The keeper renews held leases, reports each loss once, and cannot be starved."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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


@dataclass
class Told:
    """What a keeper has reported, each with the time of it."""

    lost: list[tuple[Lease, float]] = field(default_factory=list)
    cancelled: list[Lease] = field(default_factory=list)
    failing: frozenset[int] = frozenset()
    beats: int = 0

    def on_lost(self, lease: Lease) -> None:
        if lease.fence in self.failing:
            raise RuntimeError("no")
        self.lost.append((lease, time.monotonic()))

    def on_beat(self) -> None:
        self.beats += 1
        raise RuntimeError("no")


@pytest.fixture
def told() -> Told:
    """Nothing yet."""
    return Told()


@pytest.fixture
def keeper(queue: FairQueue, told: Told) -> Iterator[LeaseKeeper]:
    """A keeper of it."""
    keeper = LeaseKeeper(queue, on_lost=told.on_lost, on_cancelled=told.cancelled.append)
    yield keeper
    keeper.stop()


def test_a_lease_that_cannot_be_renewed_ends_alone(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper, told: Told
) -> None:
    """It is tried again, sooner than others are, and is lost in time; the others live on."""
    leases = queue.claim(["q"], 3).leases
    store.failing = frozenset({leases[0].fence})
    for lease in leases:
        keeper.hold(lease)
    wait_for(lambda: told.lost)
    renewals = len(store.renewed)
    wait_for(lambda: len(store.renewed) >= renewals + 4)
    assert [lease.fence for lease, _ in told.lost] == [leases[0].fence]


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


def test_a_cancel_is_reported_once(queue: FairQueue, keeper: LeaseKeeper, told: Told) -> None:
    """The next renewal reports a cancelled job, once; its lease is still renewed."""
    (lease, *_) = queue.claim(["q"], 1).leases
    keeper.hold(lease)
    queue.jobs.cancel("a")
    wait_for(lambda: told.cancelled)
    time.sleep(LEASE_SECONDS)
    assert told.cancelled == [lease]
    assert keeper.is_cancelled(lease.fence)
    assert not keeper.is_lost(lease.fence)


def test_a_loss_is_reported_once(queue: FairQueue, keeper: LeaseKeeper, told: Told) -> None:
    """``on_lost`` is called once with a lease that the store no longer knows."""
    (lease, *_) = queue.claim(["q"], 1).leases
    keeper.hold(lease)
    queue.release(lease)
    wait_for(lambda: told.lost)
    time.sleep(LEASE_SECONDS)
    assert [lost for lost, _ in told.lost] == [lease]
    assert keeper.is_lost(lease.fence)


def test_the_loss_of_an_early_acked_job_is_not_reported(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper, told: Told
) -> None:
    """A job that no other worker will run keeps running without its lease; it is counted."""
    first, second = queue.claim(["q"], 2).leases
    keeper.hold(first, redeliver=False)
    keeper.hold(second)
    keeper.no_redelivery(second.fence)
    queue.release(first)
    queue.release(second)
    wait_for(lambda: keeper.is_lost(first.fence) and keeper.is_lost(second.fence))
    store.away = True
    time.sleep(LEASE_SECONDS)
    assert told.lost == []


def test_a_beat_that_raises_does_no_harm(queue: FairQueue, store: Watched, told: Told) -> None:
    """It is called before each renewal, and leases are renewed all the same."""
    (lease,) = queue.claim(["q"]).leases
    keeper = LeaseKeeper(queue, on_beat=told.on_beat)
    keeper.hold(lease)
    wait_for(lambda: len(store.renewed) >= 3)
    keeper.stop()
    assert told.beats >= 3


def test_a_renewal_that_cannot_begin_is_tried_again(
    queue: FairQueue,
    store: Watched,
    keeper: LeaseKeeper,
    told: Told,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It has no connection of its own yet, say; the log says why, and no lease is lost."""
    (lease,) = queue.claim(["q"]).leases

    def fails(**_: object) -> None:
        raise RuntimeError("no file is left")

    with monkeypatch.context() as patch:
        patch.setattr(store, "clone", fails)
        keeper.hold(lease)
        wait_for(lambda: "no file is left" in caplog.text)
    wait_for(lambda: len(store.renewed) >= 3)
    assert not told.lost


def test_an_outage_beyond_the_lease_is_reported_in_time(
    queue: FairQueue, store: Watched, keeper: LeaseKeeper, told: Told
) -> None:
    """A lease that could not be renewed is reported as lost just before it expires."""
    (lease,) = queue.claim(["q"]).leases
    keeper.hold(lease)
    store.away = True
    wait_for(lambda: told.lost)
    end = lease.received_monotonic + LEASE_SECONDS
    assert end - LEASE_SECONDS / 10 < told.lost[0][1] < end + LEASE_SECONDS / 2


def test_a_callback_that_raises_does_no_harm(
    queue: FairQueue, keeper: LeaseKeeper, told: Told
) -> None:
    """A failing on_lost neither ends the thread nor suppresses other reports."""
    first, second = queue.claim(["q"], 2).leases
    told.failing = frozenset({first.fence})
    keeper.hold(first)
    keeper.hold(second)
    queue.release(first)
    queue.release(second)
    wait_for(lambda: told.lost)
    (third,) = queue.claim(["q"]).leases
    keeper.hold(third)
    queue.release(third)
    wait_for(lambda: len(told.lost) == 2)


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


def test_a_silent_server_cannot_hide_a_loss(own_server: EmbeddedServer, told: Told) -> None:
    """If the server accepts calls and never answers, the loss is reported when the lease ends."""
    with FairQueue(own_server.url, lease_seconds=LEASE_SECONDS) as queue:
        queue.publish(b"x", queue="q")
        (lease,) = queue.claim(["q"]).leases
        keeper = LeaseKeeper(queue, on_lost=told.on_lost)
        keeper.hold(lease)
        wait_for(lambda: (keeper.deadline(lease.fence) or 0) > lease.received_monotonic + 0.7)
        own_server.freeze()
        try:
            wait_for(lambda: told.lost, seconds=3 * LEASE_SECONDS)
        finally:
            own_server.thaw()
            keeper.stop()
        assert told.lost[0][1] - (keeper.deadline(lease.fence) or 0) < LEASE_SECONDS / 2


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
