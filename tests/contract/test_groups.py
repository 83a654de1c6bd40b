"""The workspaces of a group share its weight and its limits."""

from __future__ import annotations

from collections import Counter

import pytest

from fairqueue import Lease, Limits, Pause
from tests.contract.world import Worker, World, sound


def workspaces(leases: list[Lease]) -> Counter[str]:
    """Count the jobs of each workspace."""
    return Counter(lease.job.workspace for lease in leases)


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


def test_running_jobs_join_a_group_with_their_workspace(world: World, worker: Worker) -> None:
    """They hold slots of the group from then on, until they end."""
    world.limit("org", concurrency=2)
    world.publish_many(4, "eu")
    leases = worker.take(2)
    world.limit("eu", parent="org")
    assert worker.take(5) == []
    worker.finish(leases[0])
    assert len(worker.take(5)) == 1


def test_joining_a_group_brings_no_credit(world: World, worker: Worker) -> None:
    """A workspace that stands behind others also stands behind the group's workspaces."""
    world.limit("us", parent="org")
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


def test_a_workspace_that_leaves_a_group_is_free_of_its_limit(world: World, worker: Worker) -> None:
    """Its slots in the group are free for the others."""
    world.group("org", "eu", "us", jobs=2, concurrency=1)
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


def test_a_lowered_limit_of_a_group_holds_at_once(world: World, worker: Worker) -> None:
    """It also holds if a configuration sets it that has not reached the workspaces yet."""

    def configure(concurrency: int) -> None:
        workspaces = {"org": Limits(concurrency=concurrency), "eu": Limits(parent="org")}
        world.configure(workspaces=workspaces, authoritative=True)

    configure(1000)
    for n in range(600):  # HSCAN returns small hashes whole
        world.publish(f"w{n}", delay_seconds=1000)
    for _ in range(40):
        worker.take()
    world.publish_many(30, "eu")
    assert len(worker.take(5)) == 5
    configure(1)
    assert [lease for _ in range(20) for lease in worker.take(5)] == []


def moving(world: World, name: str = "big") -> bool:
    """Whether a workspace is between two groups."""
    record = world.command("HGET", "workspaces", name) or b""
    return any(mark in record.partition(b"|")[0] for mark in b"<>=")


MANY = 120


def test_a_workspace_on_many_queues_joins_a_group_page_by_page(world: World) -> None:
    """Each call moves a few of its flows, and the group's limit counts all of its leases."""
    world.limit("org", concurrency=3)
    world.limit("us", parent="org")
    names = [f"q{n}" for n in range(MANY)]
    for queue in names:
        world.publish("big", queue=queue)
    world.publish_many(2, "us")
    worker = world.worker()
    leases = worker.take(2, *names)
    world.limit("big", parent="org")
    calls = 0
    while moving(world):
        assert sound(world)
        leases += worker.take(1, *names, "q")
        assert len(leases) <= 3
        calls += 1
    assert 2 <= calls <= MANY / 8
    assert sound(world)
    for lease in leases:
        worker.finish(lease)
    for _ in range(MANY // 3 + 1):
        running = worker.take(9, *names, "q")
        assert len(running) <= 3
        for lease in running:
            worker.finish(lease)
    assert not any(row.waiting or row.running for row in world.stats().workspaces)
    assert sound(world)


def test_a_flow_whose_turn_comes_follows_its_workspace(world: World, worker: Worker) -> None:
    """So no job starts beside a group that is full, and none waits for the others to follow."""
    world.limit("org", concurrency=4)
    names = [f"q{n:03}" for n in range(MANY)]
    for queue in names:
        world.publish("big", queue=queue)
    world.limit("big", parent="org")
    assert moving(world)
    assert worker.take_one(names[-1]).job.queue == names[-1]
    assert len(worker.take(5, *names[-9:])) == 3
    assert moving(world)
    assert sound(world)


def test_a_group_that_is_set_during_a_move_comes_after_it(world: World) -> None:
    """It joins one, then the other, and leaves it; nothing is left of any."""
    for queue in range(MANY):
        world.publish("big", queue=f"q{queue}")
    for parent in ("org", "other", None):
        world.limit("big", parent=parent)
        assert moving(world)
        assert sound(world)
    for _ in range(60):
        world.reap()
        assert sound(world)
    assert not moving(world)
    assert world.command("HLEN", "inner_nodes") == 0


RUNNING = 1500


def test_many_running_jobs_join_and_leave_a_group_page_by_page(world: World) -> None:
    """Until all of them have slots of the group, the workspace is not in it."""
    world.publish_many(RUNNING + 2, "big")
    worker = world.worker()
    leases = worker.take(RUNNING)
    engine = world.store.engine
    slots = f"{engine.keys.prefix}slots:@org"
    world.limit("org", concurrency=RUNNING + 1)
    for parent, left in (("org", RUNNING + 1), (None, 0)):
        world.limit("big", parent=parent)
        assert moving(world)
        leases += worker.take(1)
        assert worker.finish(leases.pop(0))
        assert sound(world)
        for _ in range(9):
            world.reap()
        assert not moving(world)
        assert sound(world)
        assert engine.command("SCARD", slots) == min(left, len(leases))


def test_a_job_that_ends_while_its_workspace_leaves_a_group_frees_its_slot_there(
    world: World, worker: Worker
) -> None:
    """Its lease is gone when the others give their slots back."""
    world.limit("big", parent="org")
    names = [f"q{n:03}" for n in range(MANY)]
    for queue in names:
        world.publish("big", queue=queue)
    leases = worker.take(2, *names)
    world.limit("big", parent=None)
    assert worker.finish(leases[0])
    assert moving(world)
    assert sound(world)
    world.clock.advance(99)
    for _ in range(MANY):
        world.reap()
    assert not moving(world)
    assert sound(world)


def test_jobs_that_start_while_their_workspace_joins_a_group_take_slots_there(
    world: World,
) -> None:
    """Also those that start behind the place up to which the running ones have joined."""
    running = 2 * RUNNING
    world.publish_many(running + 60, "big")
    worker = world.worker()
    worker.take(running)
    world.limit("big", parent="org")
    assert len(worker.take(60)) == 60
    assert moving(world)
    for _ in range(9):
        world.reap()
    assert not moving(world)
    assert sound(world)


@pytest.mark.parametrize(
    "limits", [{"reserve": 1}, {"concurrency": 1}, {"weight": 3.0}, {"rate": 0.5}]
)
def test_many_flows_in_a_group_follow_their_workspace(
    world: World, worker: Worker, limits: dict[str, float]
) -> None:
    """The nodes above flows that have not changed are not read, and all others are settled."""
    world.limit("big", parent="org")
    world.limit("us", parent="org")
    names = [f"q{n:03}" for n in range(MANY)]
    for queue in names:
        world.publish("big", queue=queue)
    world.publish("us", queue=names[7])
    world.limit("big", parent="org", **limits)
    assert sound(world)
    for _ in range(3):
        leases = worker.take(2, *names[5:9])
        assert sound(world)
        world.clock.advance(1)
        for lease in leases:
            worker.finish(lease, 0.5)
            assert sound(world)
        world.publish("big", queue=names[9], priority=3)
        assert sound(world)
    world.store.pause("workspace", "big", Pause.PAUSED)
    assert sound(world)
    world.store.pause("workspace", "big", None)
    assert sound(world)


def test_a_group_whose_last_member_leaves_keeps_its_debt(world: World, worker: Worker) -> None:
    """What the member has used there counts for those that join the group."""
    world.group("g", "a", "b")
    world.publish("a")
    world.publish_many(40, "c")
    leases = worker.take(2)
    world.clock.advance(20)
    for lease in leases:
        worker.finish(lease, seconds=20.0 if lease.job.workspace == "a" else 1.0)
    world.limit("a", parent="h")
    world.publish("b")
    for _ in range(15):
        lease = worker.take_one()
        assert lease.job.workspace == "c"
        world.clock.advance(1)
        worker.finish(lease, seconds=1.0)
