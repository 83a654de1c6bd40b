"""Limits: never exceeded, changed live, read from the store alone."""

from __future__ import annotations

import pytest

from fairqueue import Limits
from tests.contract.world import World, ids


def test_a_workspace_never_runs_above_its_limit(world: World) -> None:
    """However much is asked for, by however many."""
    world.limit(concurrency=2)
    world.publish_many(10)
    assert len(world.worker("w1").take(5)) == 2
    assert world.worker("w2").take(5) == []


def test_a_freed_slot_can_be_taken_in_the_same_call(world: World) -> None:
    """Finish and claim are one step: the finished job's slot is free for the next."""
    world.limit(concurrency=1)
    first, second = world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    assert worker.finish(lease)
    assert ids(worker.take()) == [second]
    assert first == lease.job.id


def test_a_limit_of_one_workspace_does_not_hold_back_another(world: World) -> None:
    """Who is at its limit is passed over."""
    world.limit("a", concurrency=1)
    world.publish_many(5, "a")
    world.publish_many(3, "b")
    taken = [lease.job.workspace for lease in world.worker().take(10)]
    assert sorted(taken) == ["a", "b", "b", "b"]


def test_zero_lets_none_start(world: World) -> None:
    """Concurrency 0 holds everything back until it is raised."""
    world.limit(concurrency=0)
    world.publish()
    assert world.worker().take() == []
    world.limit(concurrency=1)
    assert len(world.worker("w2").take()) == 1


def test_a_raised_limit_acts_on_the_backlog_at_once(world: World) -> None:
    """What was parked can be claimed right after."""
    world.limit(concurrency=1)
    world.publish_many(5)
    worker = world.worker()
    worker.take(5)
    world.limit(concurrency=4)
    assert len(worker.take(5)) == 3


def test_a_lowered_limit_drains_and_kills_nothing(world: World) -> None:
    """Running jobs go on; none starts before usage is below the new limit."""
    world.publish_many(6)
    worker = world.worker()
    leases = worker.take(4)
    world.limit(concurrency=2)
    assert worker.take(4) == []
    for lease in leases[:2]:
        assert worker.finish(lease)
        assert worker.take(4) == []
    assert worker.finish(leases[2])
    assert len(worker.take(4)) == 1


def test_live_limits_can_be_taken_away(world: World) -> None:
    """Then what is configured counts again."""
    world.configure(default=Limits(concurrency=1))
    world.limit(concurrency=3)
    world.publish_many(9)
    worker = world.worker()
    assert len(worker.take(9)) == 3
    world.store.set_limits("workspace", "a", None)
    assert world.row().limit == 1


def test_limits_that_are_set_one_by_one_stand_together(world: World) -> None:
    """Setting a weight keeps the concurrency that was set before."""
    world.limit(concurrency=2)
    world.limit(weight=2.0)
    assert world.row().limit is None or world.row().limit == 2
    world.publish_many(5)
    assert len(world.worker().take(5)) == 2


def test_precedence(world: World) -> None:
    """Live before configured, a workspace's own before the default."""
    world.configure(
        default=Limits(concurrency=1), workspaces={"a": Limits(concurrency=2), "w": Limits()}
    )
    for name in ("a", "b", "w"):
        world.publish(name)

    def limits() -> list[int | None]:
        return [world.row(name).limit for name in ("a", "b", "w")]

    assert limits() == [2, 1, 1]
    world.store.set_limits("default", "", Limits(concurrency=5))
    assert limits() == [2, 5, 5]
    world.limit("a", concurrency=7)
    assert limits() == [7, 5, 5]
    world.store.set_limits("default", "", None)
    assert limits() == [7, 1, 1]


def test_the_default_workspace_is_not_under_the_default_limits(world: World) -> None:
    """What is unlabelled would be throttled as one tenant, else."""
    world.configure(default=Limits(concurrency=1), default_workspace="default")
    world.publish_many(5, "default")
    world.publish_many(5, "other")
    taken = [lease.job.workspace for lease in world.worker().take(10)]
    assert (taken.count("default"), taken.count("other")) == (5, 1)


def test_nor_under_default_limits_that_are_set_live(world: World) -> None:
    """Also where the configuration sets no limit at all."""
    world.configure()
    world.store.set_limits("default", "", Limits(concurrency=1))
    world.publish_many(5, "default")
    world.publish_many(5, "other")
    assert len(world.worker().take(10)) == 6


def test_another_name_may_be_the_default_workspace(world: World) -> None:
    """Then that one is exempt, and ``default`` is a tenant like any."""
    world.configure(default_workspace="unlabelled")
    world.store.set_limits("default", "", Limits(concurrency=1))
    world.publish_many(5, "unlabelled")
    world.publish_many(5, "default")
    assert len(world.worker().take(10)) == 6


def test_the_default_workspace_that_is_named_without_limits_is(world: World) -> None:
    """To stand among the workspaces is enough."""
    world.configure(default=Limits(concurrency=1), workspaces={"default": Limits()})
    world.publish_many(5, "default")
    assert len(world.worker().take(5)) == 1


def test_the_default_workspace_that_is_named_is(world: World) -> None:
    """Once it stands among the workspaces the default limits apply to it."""
    world.configure(default=Limits(concurrency=1), workspaces={"default": Limits(weight=2.0)})
    world.publish_many(5, "default")
    assert len(world.worker().take(5)) == 1


def test_the_default_workspace_with_live_limits_is(world: World) -> None:
    """Live limits name it as well."""
    world.configure(default=Limits(concurrency=1))
    world.limit("default", weight=2.0)
    world.publish_many(5, "default")
    assert len(world.worker().take(5)) == 1


def test_configured_limits_are_stored_once(world: World) -> None:
    """Who comes later with others is told so and changes nothing, unless he has the authority."""
    assert world.configure(default=Limits(concurrency=1))
    assert world.configure(default=Limits(concurrency=1))
    assert not world.configure(default=Limits(concurrency=2))
    world.publish_many(5)
    assert len(world.worker().take(5)) == 1
    assert world.configure(default=Limits(concurrency=2), authoritative=True)
    assert len(world.worker().take(5)) == 1


def test_a_changed_default_drains_to_everyone(world: World) -> None:
    """However many workspaces there are: some are settled in each call until all are."""
    world.configure(default=Limits(concurrency=1))
    names = [f"w{n}" for n in range(150)]
    for name in names:
        world.publish_many(2, name)
    worker = world.worker()
    assert len(worker.take(400)) == 150
    world.store.set_limits("default", "", Limits(concurrency=2))
    taken = [lease for _ in range(20) for lease in worker.take(100)]
    assert sorted(lease.job.workspace for lease in taken) == sorted(names)


def test_a_lowered_default_holds_at_once(world: World) -> None:
    """Also for those who were runnable under the old one and are not settled yet."""
    for n in range(600):  # Redis gives the next few of a hash only where it is large
        world.publish_many(2, f"w{n}")
    worker = world.worker()
    assert len({lease.job.workspace for lease in worker.take(600)}) == 600
    world.store.set_limits("default", "", Limits(concurrency=1))
    assert [lease for _ in range(20) for lease in worker.take(50)] == []


@pytest.mark.parametrize("scope", ["queue", "total"])
def test_a_shared_limit_closes_its_node(world: World, scope: str) -> None:
    """A full queue or total starts nothing, and goes on as slots are freed."""
    world.store.set_limits(scope, "q" if scope == "queue" else "", Limits(concurrency=3))
    for n in range(5):
        world.publish_many(2, f"w{n}")
    worker = world.worker()
    leases = worker.take(10)
    assert len(leases) == 3
    assert worker.take() == []
    worker.finish(leases[0])
    assert len(worker.take(10)) == 1


def test_the_limit_of_a_queue_leaves_others_open(world: World) -> None:
    """A closed queue does not keep a claim from the next one."""
    world.store.set_limits("queue", "full", Limits(concurrency=0))
    world.publish(queue="full")
    world.publish("a", "x", queue="open")
    assert ids(world.worker().take(5, "full", "open")) == ["x"]


def test_a_rate_spaces_starts(world: World) -> None:
    """With 2 per second a job starts every half second, not sooner."""
    world.limit(rate=2.0)
    world.publish_many(10)
    worker, starts = world.worker(), 0
    assert len(worker.take(10)) == 1
    for _ in range(32):
        world.clock.advance(0.125)
        starts += len(worker.take(10))
    assert starts == 8


def test_a_burst_starts_at_once_after_a_quiet_time(world: World) -> None:
    """Then the rate goes on."""
    world.limit(rate=1.0, burst=3.0)
    world.publish_many(10)
    worker = world.worker()
    assert len(worker.take(10)) == 3
    world.clock.advance(1)
    assert len(worker.take(10)) == 1


def test_a_rate_is_remembered_while_there_is_nothing_to_do(world: World) -> None:
    """Leaving and coming back mints no second burst."""
    world.limit(rate=0.1)
    worker = world.worker()
    world.publish()
    worker.finish(worker.take_one(), 0.0)
    world.publish()
    assert worker.take() == []
    world.pass_time(10)
    assert len(worker.take()) == 1


def test_a_rate_that_is_lifted_lets_go(world: World) -> None:
    """A higher rate acts on who waits for the old one."""
    world.limit(rate=0.001)
    world.publish_many(2)
    worker = world.worker()
    assert len(worker.take(2)) == 1
    world.store.set_limits("workspace", "a", None)
    assert len(worker.take(2)) == 1


def test_count_charges_each_job_the_same(world: World) -> None:
    """With fairness by count, workspaces start alike, however long their jobs last."""
    world.configure(fairness="count")
    world.publish_many(30, "long")
    world.publish_many(30, "short")
    worker, started = world.worker(), []
    for _ in range(20):
        lease = worker.take_one()
        started.append(lease.job.workspace)
        seconds = 10.0 if lease.job.workspace == "long" else 0.1
        world.clock.advance(seconds)
        worker.finish(lease, seconds)
    assert started.count("long") == 10


def test_weights_change_live(world: World) -> None:
    """A weight raised under way shares from then on."""
    world.publish_many(60, "a")
    world.publish_many(60, "b")
    worker = world.worker()
    worker.take(20)
    world.limit("b", weight=4.0)
    taken = [lease.job.workspace for lease in worker.take(50)]
    assert abs(taken.count("b") - 40) <= 2
