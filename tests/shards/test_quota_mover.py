"""Processes that claim move quotas, one at a time, and say where they cannot."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fairqueue import FairQueue, Limits
from fairqueue._quota_mover import MOVE_EVERY_SECONDS, QuotaMover
from fairqueue._shards import shard_of
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.sharded.quotas import TENURE_SECONDS
from fairqueue._tally import Tally
from fairqueue._types import StoredLimits
from fairqueue.errors import StoreUnavailable

SHARDS = 4


@pytest.fixture
def queue(namespace: str) -> Iterator[FairQueue]:
    """A queue of four shards in this process, which may run one job in all."""
    queue = FairQueue(
        "memory://", namespace=namespace, shards=SHARDS, lease_seconds=30, total_concurrency=1
    )
    yield queue
    queue.close()


def store_of(queue: FairQueue) -> ShardedStore:
    """Return its store, which has several shards."""
    assert isinstance(queue.store, ShardedStore)
    return queue.store


def test_a_process_that_claims_moves_quotas(queue: FairQueue) -> None:
    """Jobs of every shard run, though the limit has a slot for one shard only."""
    names = [
        next(w for w in map(str, range(99)) if shard_of(w, SHARDS) == n) for n in range(SHARDS)
    ]
    for name in names:
        queue.publish(b"x", queue="q", workspace=name)
    ran: list[str] = []
    end = time.monotonic() + 30
    while len(ran) < SHARDS and time.monotonic() < end:
        for lease in queue.claim(["q"], 10, wait_seconds=0.1).leases:
            ran.append(lease.job.workspace)
            queue.ack(lease)
    assert sorted(ran) == sorted(names)


def test_one_process_does_it(queue: FairQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one looks again when the tenure is over, and does not move them meanwhile."""
    store, tally = store_of(queue), Tally(0)
    queue.connect()
    mover = QuotaMover(store, tally)
    mover.beat(store)
    assert store.quotas.moves == 1
    monkeypatch.setattr("fairqueue._quota_mover.process_name", lambda: "another")
    monkeypatch.setattr(store.quotas, "move", lambda: pytest.fail("it is not its turn"))
    assert MOVE_EVERY_SECONDS <= mover.beat(store) <= 1.5 * TENURE_SECONDS


def test_where_no_limit_is_wide_nothing_moves(namespace: str) -> None:
    """A process asks now and then whether there is one."""
    queue = FairQueue("memory://", namespace=namespace, shards=SHARDS)
    store = store_of(queue)
    mover = QuotaMover(store, Tally(0))
    assert mover.beat(store) >= TENURE_SECONDS
    store.set_limits("total", "", Limits(concurrency=3))
    mover.beat(store)
    assert store.quotas.moves == 1


def test_what_fails_is_counted_and_logged_once(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread goes on."""
    store, tally = store_of(queue), Tally(0)
    tally.begin()
    mover = QuotaMover(store, tally)

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store.quotas, "tend", refuse)
    with caplog.at_level(logging.WARNING, logger="fairqueue.quotas"):
        assert [mover.beat(store) for _ in range(3)] == [MOVE_EVERY_SECONDS] * 3
    assert tally.read().counters["quota_errors"] == {(): 3.0}
    assert [record.message for record in caplog.records] == [
        "could not move quotas of limits over all shards, will retry: away"
    ]


def test_the_doctor_says_that_none_moves_them(queue: FairQueue) -> None:
    """From a minute after the last look on."""
    queue.connect()
    assert not [one for one in queue.admin.checkup().remarks if one.about == "quotas"]
    first = store_of(queue).shards[0].engine
    ledger = first.keys.key("quota_ledger")
    first.command("HSET", ledger, "", f"host {time.time()} {time.time() - 90}")
    [told] = [one for one in queue.admin.checkup().remarks if one.about == "quotas"]
    assert told.text.startswith("shard 0: no worker has moved quotas of limits over all shards")


def test_a_mover_that_fails_is_not_content(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor knows the last move that succeeded."""
    queue.connect()
    store, told = store_of(queue), []
    mover, move, tend = QuotaMover(store, Tally(0)), store.quotas.move, store.quotas.tend

    def telling(*args: str, **how: Any) -> tuple[bool, float]:
        told.append(how["has_moved"])
        return tend(*args, **how)

    def refuse() -> int:
        raise RuntimeError("no")

    monkeypatch.setattr(store.quotas, "tend", telling)
    for step in (move, refuse, move, move):
        monkeypatch.setattr(store.quotas, "move", step)
        mover.beat(store)
    assert told == [False, True, False, True]


def test_a_shard_that_is_away_does_not_hide_that_the_others_move(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor is content, and the error is counted."""
    queue.connect()
    store, tally = store_of(queue), Tally(0)
    tally.begin()

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(store.shards[2], "quota_needs_from", refuse)
    QuotaMover(store, tally).beat(store)
    assert store.quotas.moves == 1
    assert tally.read().counters["quota_errors"] == {(): 1.0}


def test_a_process_that_takes_over_has_not_moved_yet(queue: FairQueue) -> None:
    """Nor has one that sets limits: the doctor goes on counting from the last move."""
    queue.connect()
    store = store_of(queue)
    engine = store.shards[0].engine
    long_ago = f"host {time.time() - 80} {time.time() - 90}"
    engine.command("HSET", engine.keys.key("quota_ledger"), "", long_ago)
    stored = StoredLimits(total=Limits(concurrency=2))
    store.configure(stored, authoritative=True)
    [told] = [one for one in queue.admin.checkup().remarks if one.about == "quotas"]
    assert "no worker has moved quotas" in told.text
    mover = QuotaMover(store, Tally(0))
    for level in (1, 0):
        mover.beat(store)
        told_now = [one for one in queue.admin.checkup().remarks if one.about == "quotas"]
        assert len(told_now) == level


def test_a_process_without_room_for_a_thread_goes_on(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It claims, logs it, and tries to start the thread again with the next claim."""
    started: list[str] = []

    def start(_: object, *, name: str) -> None:
        started.append(name)
        if len(started) == 1:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr("fairqueue._quota_mover.start_native", start)
    with caplog.at_level(logging.WARNING, logger="fairqueue.quotas"):
        for _ in range(3):
            queue.claim(["q"])
    assert len(started) == 2
    assert "can't start new thread" in caplog.text


def test_a_store_that_cannot_be_cloned_stops_no_mover(
    queue: FairQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread tries again."""
    clone, tried = ShardedStore.clone, threading.Event()

    def once(store: ShardedStore, **how: Any) -> ShardedStore:
        if tried.is_set():
            return clone(store, **how)
        tried.set()
        raise RuntimeError("no")

    monkeypatch.setattr(ShardedStore, "clone", once)
    moved = threading.Event()

    def beat(*_: object) -> float:
        moved.set()
        return 0.1

    monkeypatch.setattr(QuotaMover, "beat", beat)
    queue.claim(["q"])
    assert moved.wait(10)


def test_the_doctor_says_where_shards_differ(queue: FairQueue) -> None:
    """A limit that was set while one was away is not on all."""
    queue.connect()
    store = store_of(queue)
    assert not [one for one in queue.admin.checkup().remarks if one.about == "quotas"]
    for shard in store.shards[1:]:
        shard.set_limits("queue", "q", Limits(concurrency=3))
        shard.set_limits("task", "t", Limits(concurrency=3))
    told = [one.text for one in queue.admin.checkup().remarks if one.about == "quotas"]
    assert len(told) == 2
    assert told[0].startswith(
        "the live limits of queue 'q' differ: none on shard 0, whole_concurrency=3 on shard 1"
    )


def test_a_queue_that_is_closed_leaves_no_thread(queue: FairQueue, namespace: str) -> None:
    """Nor does one with a single shard have one."""
    mover = queue._quota_mover
    queue.claim(["q"])
    stopped = mover._stopped
    assert stopped is not None
    assert not stopped.is_set()
    queue.close()
    assert stopped.is_set()
    with FairQueue("memory://", namespace=f"{namespace}-single") as single:
        single.claim(["q"])
        assert single._quota_mover._stopped is None
