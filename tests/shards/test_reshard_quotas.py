"""Limits over all shards while their number changes: the sum holds, and all of it is used after."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from fairqueue import FairQueue, Lease, StoreUnavailable
from fairqueue._requests import Ticket
from fairqueue._shards import shard_of
from fairqueue._stores.sharded import ShardedStore, mover
from fairqueue._stores.store import Store
from fairqueue.errors import RequestRejected
from fairqueue.testing import ManualClock
from tests.shards.test_reshard import FROM, NAMES, TO, Namespace, processes

__all__ = ["processes"]

LIMIT = 4
TOTAL = "concurrency:total:"


class Runs:
    """Jobs that run in several processes, never more than the limit."""

    def __init__(self) -> None:
        self.leases: list[tuple[FairQueue, Lease]] = []
        self.done: list[str] = []

    def claim(self, queue: FairQueue) -> None:
        self.leases += [(queue, lease) for lease in queue.claim(["q"], 10).leases]
        assert len(self.leases) <= LIMIT

    def end(self, n: int = 1) -> None:
        for queue, lease in self.leases[:n]:
            queue.ack(lease)
            self.done.append(lease.job.id)
        del self.leases[:n]


def move(queue: FairQueue, clock: ManualClock) -> None:
    """As its mover does, twice a second."""
    clock.advance(0.5)
    store = queue.store
    assert isinstance(store, ShardedStore)
    store.quotas.move()


@pytest.mark.parametrize("to", [TO, 2])
def test_a_limit_holds_while_the_number_changes(
    processes: Namespace, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, to: int
) -> None:
    """Jobs run all the while, in processes that move quotas; then no slot is lost."""
    old = processes.open(FROM, total_concurrency=LIMIT)
    put = [
        old.publish(b"", queue="q", workspace=name, job_id=f"{name}-{n}")
        for name in NAMES
        for n in range(4)
    ]
    runs = Runs()
    move(old, clock)
    runs.claim(old)
    assert len(runs.leases) == LIMIT
    begin = Store.begin_move
    new: list[FairQueue] = []

    def meanwhile(shard: Store, workspace: str, target: int) -> int:
        new[:] = new or [processes.open(to, total_concurrency=LIMIT)]
        for queue in (old, *new):
            move(queue, clock)
            runs.claim(queue)
        runs.end(2)
        return begin(shard, workspace, target)

    monkeypatch.setattr(Store, "begin_move", meanwhile)
    assert old.admin.reshard(to).is_done
    monkeypatch.undo()
    assert processes.shard(0).quota_ledger([TOTAL], shards=FROM)[0][to:] == []
    for _ in range(3):
        move(old, clock)
    runs.claim(old)
    assert len(runs.leases) == LIMIT
    while runs.leases:
        runs.end(LIMIT)
        move(new[0], clock)
        runs.claim(old)
    assert sorted(runs.done) == sorted(put)
    late = processes.open(to, total_concurrency=LIMIT)
    for name in NAMES:
        late.publish(b"", queue="q", workspace=name)
    for _ in range(3):
        move(late, clock)
    runs.claim(late)
    assert len(runs.leases) == LIMIT
    assert processes.findings(to) == []


@pytest.mark.parametrize("to", [TO, 2])
def test_no_more_requests_are_in_flight_while_the_number_changes(
    processes: Namespace, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, to: int
) -> None:
    """Those of a workspace that moves take their places along; then no place is lost."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    old = processes.open(FROM, total_requests=LIMIT)
    for name in NAMES:
        old.publish(b"", queue="q", workspace=name)
    held: list[Ticket] = []

    def ask(queue: FairQueue) -> None:
        for name in reversed(NAMES):
            with suppress(RequestRejected, StoreUnavailable):
                held.append(queue.requests.admit(name))
        assert len(held) <= LIMIT

    ask(old)
    assert len(held) == LIMIT
    end = Store.end_move
    moved = []

    def meanwhile(shard: Store, workspace: str, target: int) -> bool:
        is_done = end(shard, workspace, target)
        ask(old)
        move(old, clock)
        ask(old)
        moved.append(workspace)
        while len(moved) % 3 == 0 and held:
            held.pop().end()
        return is_done

    monkeypatch.setattr(Store, "end_move", meanwhile)
    assert old.admin.reshard(to).is_done
    monkeypatch.undo()
    assert len(moved) > 3
    late = processes.open(to, total_requests=LIMIT)
    old.requests.renew(old.store)
    while held:
        held.pop().end()
    old.requests.renew(old.store)
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    ask(late)
    assert len(held) == LIMIT
    assert processes.findings(to) == []


@pytest.mark.parametrize("to", [TO, 2])
def test_requests_that_move_during_a_look_are_seen(
    processes: Namespace, monkeypatch: pytest.MonkeyPatch, to: int
) -> None:
    """On both shards rather than on none: else those that wait elsewhere got their places."""
    queue = processes.open(FROM, total_requests=LIMIT)
    name = next(name for name in NAMES if shard_of(name, FROM) != shard_of(name, to))
    pair = {shard_of(name, FROM), shard_of(name, to)}
    for _ in range(LIMIT - 1):
        queue.requests.admit(name)
    move_all, needs_from = mover.Mover._move_all, Store.quota_needs_from
    moved: list[bool] = []

    def meanwhile(self: mover.Mover, found: mover.Moved) -> None:
        def look(shard: Store, *place: Any, **pages: Any) -> Any:
            needs = needs_from(shard, *place, **pages)
            if not moved and shard.engine.shard in pair:
                moved.append(True)
                move_all(self, found)
            return needs

        with monkeypatch.context() as patch:
            patch.setattr(Store, "quota_needs_from", look)
            queue.store.look()
            queue.store.quotas.move()  # type: ignore[attr-defined]

    for each in NAMES:
        if shard_of(each, FROM) == shard_of(each, to):
            with suppress(RequestRejected):
                queue.requests.ask(each, waiting_most=5)
    with monkeypatch.context() as patch:
        patch.setattr(mover.Mover, "_move_all", meanwhile)
        patch.setattr(mover.Mover, "_end", lambda *_: None)
        queue.admin.reshard(to)
    assert moved
    assert queue.requests.in_flight(name)[:2] == (LIMIT, LIMIT - 1)


@pytest.mark.parametrize("to", [TO, 2])
def test_a_rate_holds_while_the_number_changes(
    processes: Namespace, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, to: int
) -> None:
    """No more start in any window; then the whole rate is used."""
    old = processes.open(FROM, tasks={"t": {"rate": "2/s", "burst": 3}})
    for name in NAMES:
        for _ in range(20):
            old.publish(b"", queue="q", workspace=name, task="t")
    starts: list[float] = []

    def run(queue: FairQueue) -> int:
        leases = queue.claim(["q"], 10).leases
        for lease in leases:
            queue.ack(lease)
        starts.extend([clock()] * len(leases))
        return len(leases)

    def go_on(queue: FairQueue) -> int:
        started = 0
        for _ in range(3):
            move(queue, clock)
            started += run(queue)
        return started

    go_on(old)
    end = Store.end_move

    def meanwhile(shard: Store, workspace: str, target: int) -> bool:
        is_done = end(shard, workspace, target)
        go_on(old)
        return is_done

    monkeypatch.setattr(Store, "end_move", meanwhile)
    assert old.admin.reshard(to).is_done
    monkeypatch.undo()
    late = processes.open(to, tasks={"t": {"rate": "2/s", "burst": 3}})
    go_on(late)
    assert sum(go_on(late) for _ in range(5)) >= 12
    tat = 0.0
    for at in starts:
        assert at >= tat - 2 / 2 - 1e-4
        tat = max(at, tat) + 1 / 2
    old.close()
    late.close()  # its thread moves quotas while the auditor looks
    assert processes.findings(to) == []
