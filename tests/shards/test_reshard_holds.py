"""Another number of shards: what processes that are late, stopped or killed may not break."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import pytest

from fairqueue import (
    ConfigurationError,
    FairQueue,
    FairQueueError,
    LeaseLost,
    Scope,
    StoreUnavailable,
)
from fairqueue._shards.placement import shard_of
from fairqueue._stores.layout import Mark
from fairqueue._stores.sharded import mover
from fairqueue.explained import explain_wait
from fairqueue.testing import ManualClock
from tests.shards.conftest import Namespace, put_away
from tests.shards.test_reshard import FROM, NAMES, TO


def moving(to: int = TO, shards: int = FROM) -> str:
    """Name a workspace that changes its shard."""
    return next(name for name in NAMES if shard_of(name, shards) != shard_of(name, to))


def places(known: Namespace) -> dict[int, int]:
    """Count the jobs of each shard that has some."""
    found = {n: known.shard(n).depth("q", running=True) for n in range(max(FROM, TO))}
    return {n: depth for n, depth in found.items() if depth}


def asleep(queue: FairQueue) -> None:
    """Let a process stop between its look at the shards and its call."""
    queue.store.layout.looked_at = float("inf")


def begin(known: Namespace) -> None:
    """Let all shards say that their number changes."""
    for shard in map(known.shard, range(TO)):
        engine = shard.engine
        engine.command("HSET", engine.keys.key("shard"), "shards", f"{FROM}>{TO}")
        shard.set_moves(Mark(FROM, to=TO))


def half_moved(known: Namespace, name: str) -> None:
    """Let the new shard have the first jobs of a workspace of which nothing runs."""
    left, at = (known.shard(shard_of(name, n)) for n in (FROM, TO))
    assert left.hold_workspace(name, at.engine.shard) == 0
    at.hold_workspace(name, at.engine.shard)
    for items in islice(left.pages(name), 1):
        left.drop_moved(name, at.take_in(name, items))


@pytest.mark.parametrize("has_capacity", [False, True])
@pytest.mark.parametrize("to", [TO, 2])
def test_a_publisher_that_slept_through_it_finds_its_shard(
    processes: Namespace, to: int, *, has_capacity: bool
) -> None:
    """It knows the old number, so the shard refuses, and it looks again: no job is misplaced."""
    name = moving(to)
    queue, late = processes.open(FROM), processes.open(FROM)
    if has_capacity:
        queue.limits.set(Scope.default(), capacity=100)
    for each in (queue, late, queue):
        each.publish(b"", queue="q", workspace=name, task="t")
    asleep(late)
    assert queue.doctor.reshard(to).is_done
    for _ in range(2):
        queue.publish(b"", queue="q", workspace=name, task="t")
    late.publish(b"", queue="q", workspace=name, task="t")
    assert places(processes) == {shard_of(name, to): 6}
    asleep(late)
    late.publish(b"", queue="q", workspace=name, task="t", delay_seconds=5)
    assert processes.findings(to) == []


def test_a_worker_that_slept_through_it_has_lost_its_job(
    processes: Namespace, clock: ManualClock
) -> None:
    """Its shard is no more, and another one has its job: it ends, renews and publishes nothing."""
    queue, late = processes.open(5), processes.open(5)
    name = next(n for n in NAMES if shard_of(n, 5) > 1)
    queue.publish(b"", queue="q", workspace=name)
    [lease] = late.claim(["q"], 1).leases
    asleep(late)
    reaped = 0
    while not reaped:
        clock.advance(10)
        reaped = queue.store.reap(max_deliveries=None)
    assert queue.doctor.reshard(2).is_done
    [again] = queue.claim(["q"], 1).leases
    assert (again.job.id, again.fence % 64) == (lease.job.id, shard_of(name, 2))
    with pytest.raises(LeaseLost):
        late.publish(b"", queue="q", workspace=name, parent_fence=lease.fence)
    progress = [(lease.fence, 0.0)]
    assert late.store.renew(progress, owner=lease.owner, lease_seconds=30).lost == {lease.fence}
    with pytest.raises(LeaseLost):
        late.ack(lease)
    queue.ack(again)
    assert places(processes) == {}


def test_jobs_of_others_are_found_beside_one_that_moves(processes: Namespace) -> None:
    """One id in both workspaces: only a call about the one that moves must wait."""
    queue = processes.open(FROM)
    name = moving()
    for shard in queue.store.shards:
        shard.set_moves(Mark(FROM, to=TO))
    left = shard_of(name, FROM)
    other = next(n for n in NAMES if shard_of(n, FROM) > left)
    queue.publish(b"", queue="q", workspace=name, job_id="x")
    queue.publish(b"", queue="q", workspace=other, job_id="x")
    assert queue.store.shards[left].hold_workspace(name, shard_of(name, TO)) == 0
    with pytest.raises(ConfigurationError, match="there are 2 jobs with the id 'x'"):
        queue.jobs.cancel("x")
    assert queue.jobs.cancel("x", workspace=other) == "removed"
    assert places(processes) == {left: 1}


@pytest.mark.parametrize("change", ["pause", "resume", "limit", "limit of a task"])
def test_what_is_set_while_it_begins_holds_on_new_shards(
    processes: Namespace, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Also where the process that sets it does not know of them yet."""
    queue, other = processes.open(FROM), processes.open(FROM)
    if change == "resume":
        other.pauses.pause(Scope.queue("q"))
    open_ = mover.Mover._open

    def opened(self: mover.Mover, mark: Mark) -> None:
        asleep(other)
        if change == "pause":
            other.pauses.pause(Scope.queue("q"))
        elif change == "resume":
            other.pauses.resume(Scope.queue("q"))
        elif change == "limit":
            other.limits.set(Scope.default(), concurrency=1)
        else:
            other.limits.set(Scope.task("t"), workspace_concurrency=1)
        open_(self, mark)

    monkeypatch.setattr(mover.Mover, "_open", opened)
    assert queue.doctor.reshard(TO).is_done
    name = next(n for n in NAMES if shard_of(n, TO) >= FROM)
    for _ in range(3):
        queue.publish(b"", queue="q", workspace=name, task="t")
    started = {"pause": 0, "resume": 3}.get(change, 1)
    assert len(queue.claim(["q"], 3).leases) == started
    assert processes.findings(TO) == []


def test_lists_have_the_new_shards(processes: Namespace) -> None:
    """Also in a process that only looks, such as a dashboard or an exporter."""
    queue, reader = processes.open(FROM), processes.open(FROM)
    assert queue.doctor.reshard(TO).is_done
    name = next(n for n in NAMES if shard_of(n, TO) >= FROM)
    queue.publish(b"", queue="q", workspace=name, job_id="x")
    assert [row.workspace for row in reader.views.stats().workspaces] == [name]
    readers = [processes.open(TO) for _ in range(5)]
    for each in readers:
        each.store.layout.mark, each.store.layout.most = Mark(FROM), FROM
        each.store._all = each.store._all[:FROM]
    first, second, third, fourth, fifth = readers
    assert first.store.depth("q") == 1
    assert [row.queue for row in second.views.queues()] == ["q"]
    assert [job.job_id for job in third.store.waiting("q").jobs] == []
    assert third.store.waiting("q", cursor=f"{shard_of(name, TO)}:").jobs[0].job_id == "x"
    assert fourth.views.why("x").workspace == name
    assert fifth.jobs.cancel("x") == "removed"


def test_a_process_that_was_idle_for_long_asks_again(processes: Namespace) -> None:
    """It knows of a move by an earlier change of the same kind, which was turned back since."""
    queue, idle, name = processes.open(FROM), processes.open(FROM), moving()
    queue.publish(b"", queue="q", workspace=name)
    begin(processes)
    known: Any = idle.store.layout
    known.mark, known.looked_at = Mark(FROM, to=TO), time.monotonic() - 60
    known.is_at(name, shard_of(name, TO))
    idle.publish(b"", queue="q", workspace=name)
    assert places(processes) == {shard_of(name, FROM): 2}


def test_a_workspace_goes_on_where_its_new_server_is_away(
    processes: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is paused, and the next run moves it."""
    queue, name = processes.open(FROM), moving()
    queue.publish(b"", queue="q", workspace=name)
    changing = processes.open(FROM)
    move_all = mover.Mover._move_all

    def lose(self: mover.Mover, found: mover.Moved) -> None:
        at = changing.store.shards[shard_of(name, TO)]
        put_away(at)
        try:
            move_all(self, found)
        finally:
            put_away(at, is_away=False)

    with monkeypatch.context() as patch:
        patch.setattr(mover.Mover, "_move_all", lose)
        with pytest.raises(StoreUnavailable, match="away"):
            changing.doctor.reshard(TO)
    assert queue.pauses.list() == []
    queue.publish(b"", queue="q", workspace=name)
    [lease] = queue.claim(["q"], 1).leases
    queue.ack(lease)
    assert changing.doctor.reshard(TO).is_done
    assert places(processes) == {shard_of(name, TO): 1}


@pytest.mark.parametrize("of", ["task", "workspace"])
def test_a_rate_is_not_used_twice(processes: Namespace, clock: ManualClock, of: str) -> None:
    """Also where nothing else is known of its workspace any more."""
    queue, name = processes.open(FROM), moving()
    if of == "task":
        queue.limits.set(Scope.task("t"), workspace_rate="1/h")
    else:
        queue.limits.set(Scope.default(), rate="1/h")
    queue.publish(b"", queue="q", workspace=name, task="t")
    [lease] = queue.claim(["q"], 1).leases
    queue.ack(lease)
    for _ in range(30):
        clock.advance(1)
        queue.claim(["q"], 1)
    assert queue.doctor.reshard(TO).is_done
    queue.publish(b"", queue="q", workspace=name, task="t")
    assert queue.claim(["q"], 1).leases == ()
    clock.advance(3600)
    assert len(queue.claim(["q"], 1).leases) == 1


def test_an_idle_worker_is_woken_by_a_new_shard(processes: Namespace) -> None:
    """Also by the waiter that it had before."""
    queue, other = processes.open(FROM), processes.open(FROM)
    name = next(n for n in NAMES if shard_of(n, TO) >= FROM)
    waiter = queue.waiter(["q"])
    waiter.arm(0.05)
    assert not waiter.disarm()
    assert other.doctor.reshard(TO).is_done
    assert queue.claim(["q"], 1).leases == ()
    waiter.arm(30.0)
    other.publish(b"", queue="q", workspace=name)
    assert waiter.wait(30.0)
    waiter.close()
    assert len(queue.claim(["q"], 1).leases) == 1


def test_a_process_that_moves_too_late_changes_nothing(processes: Namespace) -> None:
    """It was stopped, another one has ended its work: it pauses nothing, and prepares nothing."""
    queue, name = processes.open(FROM), moving()
    queue.publish(b"", queue="q", workspace=name)
    left, at = (processes.shard(shard_of(name, n)) for n in (FROM, TO))
    first = next(left.pages(name))
    assert queue.doctor.reshard(TO).is_done
    queue.limits.set(Scope.workspace(name), concurrency=2)
    for late in (
        lambda: left.hold_workspace(name, at.engine.shard),
        lambda: at.take_in(name, first),
        lambda: left.leave_shard(name, at.engine.shard),
    ):
        with pytest.raises(FairQueueError, match="moved by another process"):
            late()
    assert queue.pauses.list() == []
    assert queue.store.get_limits("workspace", name)[-1].limits["concurrency"] == 2


def test_what_is_paused_while_its_jobs_end_stays_paused(processes: Namespace) -> None:
    """A workspace that waits for its running jobs obeys its operator as any other."""
    queue, name = processes.open(FROM), moving()
    for _ in range(2):
        queue.publish(b"", queue="q", workspace=name)
    begin(processes)
    [lease] = queue.claim(["q"], 1).leases
    assert processes.shard(shard_of(name, FROM)).hold_workspace(name, shard_of(name, TO)) == 1
    assert not queue.claim(["q"], 1).leases
    queue.pauses.pause(Scope.workspace(name))
    queue.ack(lease)
    assert queue.doctor.reshard(TO).is_done
    assert [row.name for row in queue.pauses.list()] == [name]
    assert not queue.claim(["q"], 1).leases
    queue.pauses.resume(Scope.workspace(name))
    assert len(queue.claim(["q"], 1).leases) == 1


def test_why_tells_that_it_moves(processes: Namespace, clock: ManualClock) -> None:
    """And where to: while its jobs end, in the middle, and once nothing is left on its shard."""
    queue, name = processes.open(FROM), moving()
    for n in range(3):
        queue.publish(b"", queue="q", workspace=name, job_id=f"{n}")
    left, at = (processes.shard(shard_of(name, n)) for n in (FROM, TO))
    begin(processes)
    [lease] = queue.claim(["q"], 1).leases
    assert left.hold_workspace(name, at.engine.shard) == 1

    def told() -> str:
        clock.advance(3)
        found = queue.views.why(workspace=name)
        [moves] = found.blockers
        assert (moves.kind, moves.scope, moves.limit) == ("move", "workspace", at.engine.shard)
        return "\n".join(explain_wait(found))

    assert f"moves to shard {at.engine.shard}: workspace {name}, for 3.0 s" in told()
    queue.ack(lease)
    assert left.hold_workspace(name, at.engine.shard) == 0
    assert "moves to shard" in told()
    half_moved(processes, name)
    assert "moves to shard" in told()


def test_others_are_listed_and_reported_beside_one_that_moves(
    processes: Namespace, clock: ManualClock
) -> None:
    """It is counted on both of its shards; of it alone a failure is reported once more."""
    queue, name = processes.open(FROM), moving()
    other = next(n for n in NAMES if shard_of(n, FROM) == shard_of(n, TO))
    for one in (name, other):
        for n in range(150):
            queue.publish(b"", queue="q", workspace=one, job_id=f"{one}-{n}")
        queue.jobs.cancel(f"{one}-0")
    letters = queue.store.take_failure_notices(["q"], n=9, hold_seconds=60)
    assert sorted(letter.job.workspace for letter in letters) == sorted([name, other])
    begin(processes)
    half_moved(processes, name)
    for found in (queue.views.stats().workspaces, queue.store.snapshot([name, other])):
        assert {row.workspace: row.waiting for row in found} == {name: 149, other: 149}
    assert queue.store.drop_failure_notices(letters) == 1
    assert queue.doctor.reshard(TO).is_done
    clock.advance(60)
    [again] = queue.store.take_failure_notices(["q"], n=9, hold_seconds=60)
    assert again.job.workspace == name


def test_the_doctor_finds_jobs_on_a_wrong_shard(processes: Namespace) -> None:
    """Nothing that is known puts them there, so it says so."""
    queue, name = processes.open(FROM), moving()
    wrong = processes.shard((shard_of(name, FROM) + 1) % FROM)
    queue.store.layout.away[name] = wrong.engine.shard
    queue.publish(b"", queue="q", workspace=name)
    [found] = queue.doctor.checkup().findings
    at = shard_of(name, FROM)
    assert found.invariant == "I16"
    assert f"{name!r} has jobs here, and belongs on shard {at}" in found.text
