"""After a Redis outage no job is lost, and no lease is taken from a live holder."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue import FairQueue, Job, Lease, StoreUnavailable
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Finish, LeaseKeeper
from fairqueue.testing import EmbeddedServer, ManualClock, embedded_redis

LEASE_SECONDS = 30.0


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server that keeps an append-only file."""
    with embedded_redis(persistent=True) as server:
        yield server


class Owner:
    """A claimer that calls the store directly."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name, self.number = store, name, 0

    def claim(self, n: int, *finishes: Finish) -> list[int]:
        self.number += 1
        claimed = self.store.claim(
            owner=self.name,
            number=self.number,
            queues=["q"],
            n=n,
            lease_seconds=LEASE_SECONDS,
            max_deliveries=None,
            finishes=finishes,
        )
        assert not claimed.lost
        return [lease.fence for lease in claimed.leases]

    def renew(self, *fences: int) -> frozenset[int]:
        progress = [(fence, 0.1) for fence in fences]
        return self.store.renew(progress, owner=self.name, lease_seconds=LEASE_SECONDS).lost

    def ack(self, *fences: int) -> frozenset[int]:
        self.number += 1
        finishes = [Finish(fence, seconds=0.1) for fence in fences]
        return self.store.ack(
            owner=self.name, number=self.number, lease_seconds=LEASE_SECONDS, finishes=finishes
        )


def _reap(store: Store) -> int:
    return store.reap(max_deliveries=None)


def _publish(store: Store, n: int) -> None:
    for i in range(n):
        job = Job(f"job{i}", f"w{i % 3}", "q", "t", b"x", delay_seconds=20.0 if i % 5 == 0 else 0.0)
        store.publish(job, Admission())


def test_a_crash_loses_no_job(server: EmbeddedServer, clock: ManualClock) -> None:
    """Waiting, scheduled and running jobs are all in their places after a crash."""
    store = Store(RedisEngine(server.client(retry=Retry(NoBackoff(), 1))), clock=clock)
    owner = Owner(store, "one")
    _publish(store, 20)
    leases = owner.claim(4)
    before = store.snapshot()
    server.kill()
    with pytest.raises(StoreUnavailable, match="is it running"):
        store.publish(Job("down", "w0", "q", "t", b"x"), Admission())
    server.start()
    assert store.snapshot() == before
    clock.advance(21)
    assert owner.claim(20, *(Finish(fence) for fence in leases))
    assert store.depth("q") == 0


@pytest.mark.parametrize("away_seconds", [20.0, 3600.0])
def test_leases_outlive_an_outage(
    server: EmbeddedServer, clock: ManualClock, away_seconds: float
) -> None:
    """For one lease time after an outage no lease is reaped, so that each holder can renew."""
    store = Store(RedisEngine(server.client()), clock=clock)
    one, two = Owner(store, "one"), Owner(store, "two")
    store.publish(Job("held", "w", "q", "t", b"x"), Admission())
    store.publish(Job("orphan", "w", "q", "t", b"x"), Admission())
    held, _orphan = one.claim(2)
    server.kill()
    clock.advance(away_seconds)
    server.start()

    assert two.claim(2) == []
    clock.advance(LEASE_SECONDS / 3)
    assert one.renew(held) == frozenset()
    clock.advance(LEASE_SECONDS / 3)
    assert _reap(store) == 0
    clock.advance(LEASE_SECONDS / 3)
    assert one.renew(held) == frozenset()
    clock.advance(LEASE_SECONDS / 3)
    assert len(two.claim(2)) == 1
    assert one.claim(0, Finish(held)) == []


def test_expired_leases_are_reaped_in_time_without_an_outage(
    server: EmbeddedServer, clock: ManualClock
) -> None:
    """While others keep calling, an owner that stops loses its lease after one lease time."""
    store = Store(RedisEngine(server.client()), clock=clock)
    dead, alive = Owner(store, "dead"), Owner(store, "alive")
    store.publish(Job("held", "w", "q", "t", b"x"), Admission())
    dead.claim(1)
    for _ in range(3):
        clock.advance(9.9)
        assert alive.claim(1) == []
    clock.advance(0.5)
    assert len(alive.claim(1)) == 1


def test_a_claim_interrupted_by_an_outage_can_be_repeated(
    server: EmbeddedServer, clock: ManualClock
) -> None:
    """The reply is stored across a crash: the same number returns the same leases."""
    store = Store(RedisEngine(server.client()), clock=clock)
    owner = Owner(store, "one")
    _publish(store, 4)
    first = owner.claim(2)
    server.kill()
    server.start()
    owner.number -= 1
    assert owner.claim(2) == first


def test_workers_and_producers_recover_by_themselves(server: EmbeddedServer) -> None:
    """After a restart a blocked claim gets its job, a held lease is kept, and an ack succeeds."""
    with FairQueue(server.url, lease_seconds=3.0) as queue, queue.clone() as idle:
        queue.publish(b"x", queue="long", job_id="long")
        (lease,) = queue.claim(["long"]).leases
        keeper = LeaseKeeper(queue)
        told: list[Lease] = []
        keeper.hold(lease, on_lost=told.append)
        got: list[str] = []
        worker = threading.Thread(target=_work_on, args=(idle, got))
        worker.start()
        server.kill()
        server.start()
        _until_published(queue)
        worker.join(20)
        time.sleep(1.5)
        assert got == ["short"]
        assert told == []
        queue.ack(lease)
        keeper.stop()
        assert not any(w.waiting or w.running for w in queue.admin.stats().workspaces)


def _work_on(queue: FairQueue, got: list[str]) -> None:
    """Claim as a worker does: retry whenever Redis is unavailable."""
    until = time.monotonic() + 20
    while not got and time.monotonic() < until:
        try:
            for lease in queue.claim(["q"], wait_seconds=1).leases:
                queue.ack(lease)
                got.append(lease.job.id)
        except StoreUnavailable:
            time.sleep(0.05)


def _until_published(queue: FairQueue) -> None:
    for _ in range(200):
        try:
            queue.publish(b"x", queue="q", job_id="short")
        except StoreUnavailable:
            time.sleep(0.05)
        else:
            return


def test_old_fences_are_invalid_after_a_loss_of_data(
    server: EmbeddedServer, clock: ManualClock
) -> None:
    """If Redis comes back empty, holders of old leases cannot end the jobs that are leased now."""
    store = Store(RedisEngine(server.client()), clock=clock)
    old, new = Owner(store, "old"), Owner(store, "new")
    _publish(store, 4)
    before = old.claim(2)
    server.client().flushall()
    clock.advance(1)
    _publish(store, 4)
    after = new.claim(2)
    assert min(after) > max(before)
    assert old.renew(*before) == {*before}
    assert new.claim(0, *(Finish(fence) for fence in after)) == []


def test_no_fence_is_issued_twice_after_a_restored_snapshot(
    server: EmbeddedServer, namespace: str
) -> None:
    """What was claimed after the snapshot is unknown, and its fences are never issued again."""
    client = server.client()
    store = Store(RedisEngine(client, namespace=namespace))
    old, new = Owner(store, "old"), Owner(store, "new")
    _publish(store, 10)
    known = old.claim(2)
    snapshot = {key: client.dump(key) or b"" for key in client.scan_iter(match=f"{{{namespace}:*")}
    forgotten = old.claim(3)
    client.delete(*client.scan_iter(match=f"{{{namespace}:*"))
    for key, value in snapshot.items():
        client.restore(key, 0, value)

    issued = new.claim(3)
    assert len(issued) == 3
    assert min(issued) > max(known + forgotten)
    assert old.ack(*forgotten) == {*forgotten}
    assert old.renew(*known, *forgotten) == {*forgotten}
    assert sum(row.running for row in store.snapshot().workspaces) == 5
    assert new.ack(*issued) == frozenset()
    assert old.ack(*known) == frozenset()
