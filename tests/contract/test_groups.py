"""The workspaces of a group share its weight and its limits."""

from __future__ import annotations

from collections import Counter

from fairqueue import Lease, Limits
from tests.contract.world import World


def workspaces(leases: list[Lease]) -> Counter[str]:
    """Count the jobs of each workspace."""
    return Counter(lease.job.workspace for lease in leases)


def test_a_group_never_runs_above_its_limit(world: World) -> None:
    """The limit holds for all its workspaces together; other workspaces go on."""
    world.limit("org", concurrency=2)
    for name in ("eu", "us", "asia"):
        world.limit(name, parent="org")
        world.publish_many(3, name)
    world.publish_many(3, "other")
    taken = workspaces(world.worker("w1").take(20))
    assert taken.pop("other") == 3
    assert sum(taken.values()) == 2
    assert world.worker("w2").take(20) == []


def test_a_freed_slot_goes_to_the_group_s_next(world: World) -> None:
    """Its workspaces take turns."""
    world.limit("org", concurrency=1)
    for name in ("eu", "us"):
        world.limit(name, parent="org")
        world.publish_many(3, name)
    worker, names = world.worker(), []
    for _ in range(4):
        lease = worker.take_one()
        names.append(lease.job.workspace)
        world.clock.advance(1)
        worker.finish(lease, 1.0)
    assert names == ["eu", "us", "eu", "us"]


def test_many_workspaces_in_a_group_are_one_flow(world: World) -> None:
    """Ten workspaces of one group together get as much as one workspace of another."""
    world.configure(
        workspaces={f"m{n}": Limits(parent="org") for n in range(10)},
        fairness="count",
    )
    for n in range(10):
        world.publish_many(4, f"m{n}")
    world.publish_many(20, "single")
    taken = workspaces(world.worker().take(20))
    assert abs(taken["single"] - 10) <= 1


def test_a_group_has_its_weight(world: World) -> None:
    """The weights of its workspaces only count among them."""
    world.configure(
        workspaces={
            "org": Limits(weight=3.0),
            "eu": Limits(parent="org", weight=2.0),
            "us": Limits(parent="org"),
        },
        fairness="count",
    )
    for name in ("eu", "us", "single"):
        world.publish_many(40, name)
    taken = workspaces(world.worker().take(40))
    assert abs(taken["single"] - 10) <= 1
    assert abs(taken["eu"] - 20) <= 1


def test_a_workspaces_own_limit_holds_in_its_group(world: World) -> None:
    """The lower of the two limits holds."""
    world.limit("org", concurrency=3)
    world.limit("eu", parent="org", concurrency=1)
    world.limit("us", parent="org")
    for name in ("eu", "us"):
        world.publish_many(5, name)
    assert workspaces(world.worker().take(10)) == {"eu": 1, "us": 2}


def test_default_limits_do_not_apply_to_a_group(world: World) -> None:
    """They apply to each of its workspaces."""
    world.configure(
        default=Limits(concurrency=2),
        workspaces={"eu": Limits(parent="org"), "us": Limits(parent="org")},
    )
    for name in ("eu", "us"):
        world.publish_many(5, name)
    assert workspaces(world.worker().take(10)) == {"eu": 2, "us": 2}


def test_running_jobs_join_a_group_with_their_workspace(world: World) -> None:
    """They hold slots of the group from then on, until they end."""
    world.limit("org", concurrency=2)
    world.publish_many(4, "eu")
    worker = world.worker()
    leases = worker.take(2)
    world.limit("eu", parent="org")
    assert worker.take(5) == []
    worker.finish(leases[0])
    assert len(worker.take(5)) == 1


def test_joining_a_group_brings_no_credit(world: World) -> None:
    """A workspace that stands behind others also stands behind the group's workspaces."""
    world.limit("us", parent="org")
    worker = world.worker()
    for task, seconds in (("t", 1.0), ("import", 20.0)):
        world.publish("eu", task=task)
        world.publish("us")
        leases = worker.take(2)
        if task == "import":
            for name in ("eu", "us"):
                world.publish_many(20, name)
        world.clock.advance(seconds)
        for lease in leases:
            worker.finish(lease, seconds if lease.job.workspace == "eu" else 1.0)
    world.limit("eu", parent="org")
    names = []
    for _ in range(10):
        lease = worker.take_one()
        names.append(lease.job.workspace)
        world.clock.advance(1)
        worker.finish(lease, 1.0)
    assert names == ["us"] * 10


def test_a_workspace_that_leaves_a_group_is_free_of_its_limit(world: World) -> None:
    """Its slots in the group are free for the others."""
    world.limit("org", concurrency=1)
    for name in ("eu", "us"):
        world.limit(name, parent="org")
        world.publish_many(2, name)
    worker = world.worker()
    first = worker.take_one().job.workspace
    world.store.set_limits("workspace", first, None)
    assert workspaces(worker.take(10)) == {"eu": 1, "us": 1}


def test_limits_of_a_group_and_a_task_hold_together(world: World) -> None:
    """A job needs a slot of both."""
    world.limit("org", concurrency=3)
    world.limit_task("t", concurrency=2)
    for name in ("eu", "us"):
        world.limit(name, parent="org")
        world.publish_many(3, name, task="t")
        world.publish_many(3, name, task="u")
    world.publish_many(3, "other", task="t")
    leases = world.worker().take(20)
    assert sum(lease.job.workspace != "other" for lease in leases) == 3
    assert sum(lease.job.task == "t" for lease in leases) == 2


def test_a_group_may_be_its_own_member(world: World) -> None:
    """Jobs under the group's own name then belong to it, too."""
    world.limit("org", concurrency=2, parent="org")
    world.limit("eu", parent="org")
    for name in ("org", "eu"):
        world.publish_many(3, name)
    assert len(world.worker().take(10)) == 2


def test_a_lowered_limit_of_a_group_holds_at_once(world: World) -> None:
    """It also holds if a configuration sets it that has not reached the workspaces yet."""

    def configure(concurrency: int) -> None:
        workspaces = {"org": Limits(concurrency=concurrency), "eu": Limits(parent="org")}
        world.configure(workspaces=workspaces, authoritative=True)

    configure(1000)
    worker = world.worker()
    for n in range(600):  # HSCAN returns small hashes whole
        world.publish(f"w{n}", delay_seconds=1000)
    for _ in range(40):
        worker.take()
    world.publish_many(30, "eu")
    assert len(worker.take(5)) == 5
    configure(1)
    assert [lease for _ in range(20) for lease in worker.take(5)] == []


def test_the_limit_of_a_group_can_be_changed_at_runtime(world: World) -> None:
    """A raised limit starts jobs at once; a lowered one drains."""
    world.limit("org", concurrency=1)
    world.limit("eu", parent="org")
    world.publish_many(6, "eu")
    worker = world.worker()
    leases = worker.take(10)
    world.limit("org", concurrency=3)
    leases += worker.take(10)
    assert len(leases) == 3
    world.limit("org", concurrency=2)
    worker.finish(leases[0])
    assert worker.take(10) == []
    worker.finish(leases[1])
    assert len(worker.take(10)) == 1
