"""A workspace below its reserve gets the next free slot; unused reserve is lent."""

from __future__ import annotations

import pytest

from fairqueue import ConfigurationError, Lease, Limits, Pause
from tests.contract.world import Worker, World


def whose(leases: list[Lease]) -> str:
    """Return the workspaces in the order of their starts."""
    return "".join(lease.job.workspace for lease in leases)


def end(world: World, worker: Worker, leases: list[Lease], seconds: float = 1.0) -> None:
    """Finish these jobs after this many seconds."""
    world.clock.advance(seconds)
    for lease in leases:
        assert worker.finish(lease, seconds)


def test_a_workspace_below_its_reserve_goes_first(world: World, worker: Worker) -> None:
    """Two of its jobs start before those that waited longer; the third waits for its turn."""
    world.publish_many(9, "a")
    world.publish_many(9, "b")
    world.limit("c", reserve=2)
    end(world, worker, worker.take(4))
    world.publish_many(9, "c")
    started = whose(worker.take(8))
    assert started[:2] == "cc"
    assert set(started[2:5]) == {"a", "b", "c"}


def test_a_lent_slot_returns_with_the_next_free_one(world: World, worker: Worker) -> None:
    """While others hold all slots, the first one that is freed goes to the reserve."""
    world.limit("r", reserve=2)
    world.publish_many(20, "a")
    world.publish_many(20, "b")
    lent = worker.take(8)
    assert set(whose(lent)) == {"a", "b"}
    world.publish_many(3, "r")
    end(world, worker, lent[:1])
    assert whose(worker.take(1)) == "r"
    end(world, worker, lent[1:2])
    assert whose(worker.take(1)) == "r"
    end(world, worker, lent[2:3])
    assert whose(worker.take(1)) in {"a", "b", "r"}


def test_unused_reserve_is_lent(world: World) -> None:
    """A reserve without jobs keeps no slot idle."""
    world.limit("r", reserve=5)
    world.publish_many(8, "a")
    assert whose(world.worker().take(8)) == "a" * 8


def test_a_reserve_holds_over_several_queues(world: World, worker: Worker) -> None:
    """A free slot goes to a workspace below its reserve on any of the worker's queues."""
    world.limit("r", reserve=2)
    world.publish_many(9, "a", queue="q1")
    world.publish_many(9, "a", queue="q2")
    world.publish_many(3, "r", queue="q2")
    assert whose(worker.take(3, "q1", "q2"))[:2] == "rr"
    assert whose(worker.take(1, "q1")) == "a"


@pytest.mark.parametrize("how", ["paused", "full", "rate", "queue"])
def test_a_reserve_breaks_no_limit(world: World, how: str) -> None:
    """A workspace below its reserve that is blocked does not start, and others do."""
    world.limit("r", reserve=3)
    if how == "paused":
        world.store.pause("workspace", "r", Pause.PAUSED)
    elif how == "full":
        world.limit_task("t", concurrency=0)
    elif how == "rate":
        world.limit("r", rate=0.001, burst=1)
    else:
        world.store.pause("queue", "elsewhere", Pause.PAUSED)
    world.publish_many(5, "r", queue="elsewhere" if how == "queue" else "q")
    world.publish_many(5, "a", task="u")
    started = whose(world.worker().take(4, "q", "elsewhere"))
    assert started == ("raaa" if how == "rate" else "aaaa")


def test_a_reserve_acts_inside_a_task_and_a_group(world: World, worker: Worker) -> None:
    """The node that contains the workspace goes first with it."""
    world.configure(workspaces={"org": Limits(weight=0.01), "r": Limits(parent="org", reserve=1)})
    world.limit_task("t", concurrency=50)
    world.publish_many(9, "a", task="u")
    world.publish_many(9, "a", task="t")
    end(world, worker, worker.take(6))
    world.publish_many(3, "r", task="t")
    assert whose(worker.take(2)) == "ra"


def test_a_changed_reserve_acts_at_once(world: World, worker: Worker) -> None:
    """Setting, raising or removing it affects the next claim, for waiting jobs, too."""
    world.publish_many(30, "a")
    world.publish_many(30, "r")
    world.limit("r", reserve=2)
    assert whose(worker.take(2)) == "rr"
    world.limit("r", reserve=4)
    assert whose(worker.take(2)) == "rr"
    world.store.set_limits("workspace", "r", None)
    assert whose(worker.take(4)) == "aaaa"


def test_positions_in_the_queue_include_reserves(world: World, worker: Worker) -> None:
    """A workspace below its reserve has no turns ahead of it and is ahead of the others."""
    world.publish_many(5, "a")
    world.publish_many(5, "b")
    end(world, worker, worker.take(4))
    world.limit("r", reserve=1)
    world.publish_many(2, "r")

    def ahead(name: str) -> int:
        (line,) = world.views.why(workspace=name, job_id=None, queue=None).positions
        return line.turns_ahead

    assert ahead("r") == 0
    assert sorted(map(ahead, "ab")) == [1, 2]


def test_a_reserve_above_the_concurrency_is_refused(world: World) -> None:
    """It is compared with the workspace's own concurrency or the default; nothing is changed."""
    world.configure(default=Limits(concurrency=3))
    world.limit("r", reserve=2)
    with pytest.raises(ConfigurationError, match="would be 4, above its concurrency of 3"):
        world.limit("r", reserve=4, weight=7.0)
    world.limit("r", concurrency=5, reserve=4)
    with pytest.raises(ConfigurationError, match="would be 6, above its concurrency of 5"):
        world.limit("r", reserve=6)
    world.limit("r", concurrency=1)  # an operator may always lower a limit
    world.publish_many(3, "r")
    assert whose(world.worker().take(3)) == "r"
