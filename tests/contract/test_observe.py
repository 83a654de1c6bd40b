"""With ``enforce="observe"`` limits block no job; the store counts what they would block."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, Limits, Pause, Why
from tests.contract.world import LEVELS, WITH_RATES, Worker, World


def observe(world: World, *, enforced: bool = False, **limits: object) -> None:
    """Switch between observing limits and enforcing them."""
    world.configure(enforced=enforced, authoritative=True, **limits)


def observed(world: World, workspace: str = "a") -> dict[str, int]:
    """Return the counts."""
    return dict(why(world, workspace).observed or {})


def why(world: World, workspace: str = "a") -> Why:
    """Ask why the workspace waits."""
    return world.views.why(workspace=workspace, job_id=None, queue=None)


@pytest.mark.parametrize("scope", LEVELS)
def test_a_start_over_a_limit_happens_and_is_counted(world: World, scope: str) -> None:
    """Three of five starts exceed a limit of two, on any level."""
    observe(world)
    world.limit_level(scope, concurrency=2)
    world.publish_many(5)
    assert len(world.worker().take(9)) == 5
    assert observed(world) == {"starts": 3, f"concurrency.{scope}": 3}
    assert (world.row().would_block, world.row().would_reject) == (3, 0)


def test_a_start_over_a_group_s_limit_is_counted(world: World) -> None:
    """The start counts for its workspace."""
    observe(world)
    world.group("org", *"ab", jobs=1, concurrency=1)
    assert len(world.worker().take(9)) == 2
    assert observed(world, "b") == {"starts": 1, "concurrency.group": 1}
    assert observed(world, "a") == {}


@pytest.mark.parametrize("scope", WITH_RATES)
def test_a_start_over_a_rate_is_counted(world: World, worker: Worker, scope: str) -> None:
    """Only the excess counts: it does not use up the rate of later starts."""
    observe(world)
    world.limit_level(scope, rate=1.0)
    world.publish_many(10)
    assert len(worker.take(4)) == 4
    assert observed(world) == {"starts": 3, f"rate.{scope}": 3}
    for _ in range(3):
        world.clock.advance(1.0)
        worker.take(1)
    assert observed(world) == {"starts": 3, f"rate.{scope}": 3}


@pytest.mark.parametrize("scope", ["workspace", "queue", "total"])
def test_a_publish_over_a_capacity_is_let_in_and_counted(world: World, scope: str) -> None:
    """An exempt publish does not count."""
    observe(world)
    world.limit_level(scope, capacity=2)
    world.publish_many(5)
    world.publish(exempt=True)
    assert world.store.depth("q") == 6
    assert observed(world) == {"publishes": 3, f"capacity.{scope}": 3}
    assert (world.row().would_block, world.row().would_reject) == (0, 3)


def test_several_limits_count_one_start(world: World) -> None:
    """Each exceeded level counts, the start once."""
    observe(world, tasks={"t": Limits(concurrency=1)}, total=Limits(concurrency=1))
    world.limit("a", concurrency=1)
    world.publish_many(2)
    world.worker().take(2)
    levels = {f"concurrency.{scope}": 1 for scope in ("workspace", "task", "total")}
    assert observed(world) == {"starts": 1, **levels}


def test_observed_limits_block_no_workspace(world: World) -> None:
    """``why`` lists what would block it apart from what does."""
    observe(world, default=Limits(concurrency=1))
    world.publish_many(3)
    world.worker().take(1)
    found = why(world)
    assert found.observing
    assert found.blockers == ()
    (would,) = found.positions[0].would_block
    assert (would.kind, would.scope, would.used) == ("concurrency", "workspace", 1)


@pytest.mark.parametrize(
    ("scope", "name"), [("workspace", "a"), ("queue", "q"), ("task", "t"), ("total", "")]
)
def test_pauses_and_drains_are_enforced(world: World, scope: str, name: str) -> None:
    """They are decisions of an operator and not limits."""
    observe(world)
    world.publish()
    world.store.pause(scope, name, Pause.PAUSED)
    assert world.worker("w1").take() == []
    assert [hold.kind for hold in why(world).blockers] == ["pause"]
    world.store.pause(scope, name, Pause.DRAINING)
    with pytest.raises(CapacityExceeded):
        world.publish()
    assert len(world.worker("w2").take()) == 1
    assert observed(world) == {}


@pytest.mark.parametrize("scope", LEVELS)
def test_limits_hold_once_they_are_enforced(world: World, worker: Worker, scope: str) -> None:
    """Jobs above a limit drain; each change of the mode resets the counts."""
    observe(world)
    world.limit_level(scope, concurrency=2)
    world.publish_many(8)
    leases = worker.take(5)
    observe(world, enforced=True)
    assert observed(world) == {}
    for lease in leases[:3]:
        assert worker.take(5) == []
        worker.finish(lease, 0.0)
    assert worker.take(5) == []
    worker.finish(leases[3], 0.0)
    leases = worker.take(5)
    assert len(leases) == 1
    observe(world)
    assert len([*worker.take(5), *worker.take(5)]) == 2


def test_a_blocked_workspace_starts_once_limits_are_observed(world: World, worker: Worker) -> None:
    """It starts at once, or within a few calls if there are many."""
    world.configure(default=Limits(concurrency=1), tasks={"slow": Limits(rate=0.001)})
    for n in range(40):
        world.publish_many(2, f"w{n}")
        world.publish(f"w{n}", task="slow")
    assert len(worker.take(200)) <= 40
    observe(world, default=Limits(concurrency=1), tasks={"slow": Limits(rate=0.001)})
    for _ in range(10):
        worker.take(200)
    assert sum(row.waiting for row in world.stats().workspaces) == 0
