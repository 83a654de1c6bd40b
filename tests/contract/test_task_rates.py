"""A task's rate per workspace spaces its starts in each workspace, and holds back nothing else."""

from __future__ import annotations

from collections import Counter

import pytest

from fairqueue import ConfigurationError, FairQueue, Pause, Scope
from tests.contract.world import Worker, World


def starts(worker: Worker, queue: str = "q") -> Counter[tuple[str, str]]:
    """Count what starts now, by workspace and task."""
    leases = worker.take(20, queue)
    return Counter((lease.job.workspace, lease.job.task) for lease in leases)


def test_it_spaces_the_starts_in_each_workspace(world: World, worker: Worker) -> None:
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


def test_it_counts_all_queues_of_a_workspace(world: World, worker: Worker) -> None:
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


def test_a_pause_and_its_end(world: World, worker: Worker) -> None:
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


def test_settings_and_live_limits() -> None:
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
