"""Limits and rates of a task: its node is blocked; positions are kept, other tasks go on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueue, Lease, Limits, Pause, Scope
from tests.contract.world import Worker, World


def tasks(leases: list[Lease]) -> Counter[str]:
    """Count the jobs of each task."""
    return Counter(lease.job.task for lease in leases)


def test_a_blocked_job_takes_no_slot_anywhere(world: World, worker: Worker) -> None:
    """A job that one level blocks takes a slot on no other level."""
    world.limit_task(concurrency=1)
    world.limit("a", concurrency=1)
    world.store.set_limits("total", "", Limits(concurrency=2))
    world.publish("a", task="t")
    lease = worker.take_one()
    world.publish("a", task="other")
    world.publish_many(3, "b", task="t")
    assert worker.take(10) == []
    assert (world.row("a").running, world.row("b").running) == (1, 0)
    worker.finish(lease)
    assert tasks(worker.take(10)) == {"t": 1, "other": 1}
    assert worker.take(10) == []


def test_a_removed_limit_blocks_no_job(world: World, worker: Worker) -> None:
    """Waiting and new jobs run in the order of their publishes."""
    world.limit_task(concurrency=1)
    ids = world.publish_many(3)
    first = worker.take(5)
    world.store.set_limits("task", "t", None)
    rest = worker.take(5)
    assert [lease.job.id for lease in first + rest] == ids
    ids = world.publish_many(2)
    assert [lease.job.id for lease in worker.take(5)] == ids
    for lease in first + rest:
        assert worker.finish(lease)


def test_a_configured_task_limit_holds(world: World) -> None:
    """It acts like a runtime one."""
    world.configure(tasks={"t": Limits(concurrency=1), "free": Limits()})
    for name in "ab":
        world.publish_many(2, name)
        world.publish_many(2, name, task="free")
    assert tasks(world.worker().take(20)) == {"t": 1, "free": 4}
    world.configure(tasks={}, authoritative=True)
    assert tasks(world.worker("w2").take(20)) == {"t": 3}


def test_a_limit_per_workspace_blocks_only_that_lane(world: World, worker: Worker) -> None:
    """Other tasks of the workspace and other workspaces of the task go on."""
    world.limit_task(workspace_concurrency=1)
    for name in "ab":
        world.publish_many(3, name)
        world.publish_many(2, name, task="other")
    leases = worker.take(20)
    assert tasks(leases) == {"t": 2, "other": 4}
    mine = next(ls for ls in leases if (ls.job.workspace, ls.job.task) == ("a", "t"))
    worker.finish(mine)
    (following,) = worker.take(20)
    assert (following.job.workspace, following.job.task) == ("a", "t")


@pytest.mark.parametrize("limit", [{"concurrency": 4}, {"workspace_concurrency": 4}])
def test_a_first_limit_counts_what_runs(world: World, worker: Worker, limit: Any) -> None:
    """Jobs that have started before hold its slots, too."""
    world.publish_many(6)
    worker.take(3)
    world.limit_task(**limit)
    assert len(worker.take(5)) == 1


def test_a_raised_limit_per_workspace_unblocks_lanes(world: World, worker: Worker) -> None:
    """It does at once, or within a few calls if there are many."""
    world.limit_task(workspace_concurrency=1)
    for n in range(50):
        world.publish_many(2, f"w{n}")
    assert len(worker.take(200)) == 50
    world.limit_task(workspace_concurrency=2)
    assert sum(len(worker.take(200)) for _ in range(10)) == 50


def test_both_limits_of_a_task_hold(world: World) -> None:
    """The limit per workspace and the limit over all workspaces hold together."""
    world.limit_task(concurrency=3, workspace_concurrency=2)
    for name in "ab":
        world.publish_many(5, name)
    names = Counter(lease.job.workspace for lease in world.worker().take(10))
    assert sorted(names.values()) == [1, 2]


@pytest.mark.parametrize("how", ["expired", "released", "rejected"])
def test_a_slot_of_a_task_is_freed_by_every_ending(world: World, worker: Worker, how: str) -> None:
    """A job that is given back is under the limit again."""
    world.limit_task(concurrency=1)
    world.publish_many(2)
    lease = worker.take_one()
    if how == "expired":
        world.pass_time(40)
    elif how == "released":
        worker.release(lease)
    else:
        worker.reject(lease)
    assert len(worker.take(5)) == 1


def test_priority_is_strict_within_a_limited_task(world: World) -> None:
    """Its lane is ordered like any other."""
    world.limit_task(concurrency=1)
    late = world.publish(priority=5)
    soon = world.publish(priority=0)
    worker, seen = world.worker(), []
    for _ in range(2):
        lease = worker.take_one()
        seen.append(lease.job.id)
        worker.finish(lease)
    assert seen == [soon, late]


def _lowered(world: World, scope: str, name: str, limits: Limits) -> None:
    """Lower a limit; no workspace has been settled since, as right after the call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.store, "settle_change", lambda: None)
        world.store.set_limits(scope, name, limits)


def test_a_lowered_limit_holds_before_it_has_reached_each_workspace(
    world: World, worker: Worker
) -> None:
    """A limit of a task in each workspace: one job of each runs, so none may start."""
    world.store.set_limits("task", "t", Limits(workspace_concurrency=2))
    names = [f"w{n}" for n in range(60)]
    for name in names:
        world.publish_many(2, name)
    taken = [lease.job.workspace for _ in range(4) for lease in worker.take(15)]
    assert sorted(taken) == sorted(names)
    _lowered(world, "task", "t", Limits(workspace_concurrency=1))
    assert [worker.take(16) for _ in range(5)] == [[]] * 5


def test_a_claim_passes_few_blocked_workspaces(world: World, worker: Worker) -> None:
    """The next call goes on behind them."""
    for n in range(700):  # above 512 a scan of Redis gives a part of them
        world.publish(f"w{n}")
    _lowered(world, "default", "", Limits(concurrency=0))
    assert worker.take(1) == []
    assert world.command("ZCARD", ("ready", "q")) >= 500
    while world.command("ZCARD", ("ready", "q")):
        assert worker.take(1) == []


def starts(worker: Worker, queue: str = "q") -> Counter[tuple[str, str]]:
    """Count what starts now, by workspace and task."""
    leases = worker.take(20, queue)
    return Counter((lease.job.workspace, lease.job.task) for lease in leases)


def test_a_rate_spaces_the_starts_in_each_workspace(world: World, worker: Worker) -> None:
    """Each workspace has the rate for itself; other tasks go on."""
    world.limit_task(workspace_rate=2.0)
    for name in "ab":
        world.publish_many(3, name)
    world.publish_many(2, "a", task="other")
    assert starts(worker) == {("a", "t"): 1, ("b", "t"): 1, ("a", "other"): 2}
    world.clock.advance(0.499)
    assert starts(worker) == {}
    world.clock.advance(0.002)
    assert starts(worker) == {("a", "t"): 1, ("b", "t"): 1}


def test_a_rate_counts_all_queues_of_a_workspace(world: World, worker: Worker) -> None:
    """A start on one queue makes the task wait on the other, which its timer opens."""
    world.limit_task(workspace_rate=0.1)
    world.publish(queue="q")
    world.publish(queue="other")
    assert starts(worker) == {("a", "t"): 1}
    assert starts(worker, queue="other") == {}
    world.clock.advance(10.001)
    assert starts(worker, queue="other") == {("a", "t"): 1}


def test_another_rate_applies_at_once(world: World, worker: Worker) -> None:
    """A higher one opens earlier, and none at all opens now."""
    world.limit_task(workspace_rate=0.001)
    world.publish_many(3)
    assert starts(worker) == {("a", "t"): 1}
    world.limit_task(workspace_rate=0.001, workspace_burst=2.0)
    assert starts(worker) + starts(worker) == {("a", "t"): 1}
    world.store.set_limits("task", "t", None)
    assert starts(worker) == {("a", "t"): 1}


def test_a_rate_holds_after_a_pause(world: World, worker: Worker) -> None:
    """After a pause the rate still holds, and has a timer again."""
    world.limit_task(workspace_rate=0.5)
    world.publish_many(3)
    assert starts(worker) == {("a", "t"): 1}
    world.store.pause("workspace", "a", Pause.PAUSED)
    world.clock.advance(1)
    world.store.pause("workspace", "a", None)
    assert starts(worker) == {}
    world.clock.advance(1.001)
    assert starts(worker) == {("a", "t"): 1}


def test_a_rate_in_settings_and_live() -> None:
    """They name it as they name a rate; a burst alone is refused."""
    with FairQueue(
        "memory://", tasks={"t": {"workspace_rate": "30/m", "workspace_burst": 2}}
    ) as queue:
        queue.connect()
        assert queue.limits.get(Scope.task("t"))["workspace_rate"].value == 0.5
        queue.limits.set(Scope.task("t"), workspace_rate="100/h", workspace_burst=5)
        found = queue.limits.get(Scope.task("t"))["workspace_rate"]
        assert found.value == pytest.approx(100 / 3600)
        assert found.source == "live"
        with pytest.raises(ConfigurationError, match=r"workspace_burst' has no effect without"):
            queue.limits.set(Scope.task("t"), workspace_burst=5)
    with pytest.raises(ConfigurationError, match=r"workspace_burst' has no effect without"):
        FairQueue("memory://", tasks={"t": {"workspace_burst": 2}})
