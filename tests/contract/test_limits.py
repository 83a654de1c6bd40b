"""Limits of workspaces and queues are never exceeded, and change at runtime."""

from __future__ import annotations

import pytest

from fairqueue import Limits
from tests.contract.world import World, ids


def test_a_workspace_never_exceeds_its_limit(world: World) -> None:
    """The limit holds for any number of claims and workers."""
    world.limit(concurrency=2)
    world.publish_many(10)
    assert len(world.worker("w1").take(5)) == 2
    assert world.worker("w2").take(5) == []


def test_a_freed_slot_can_be_taken_in_the_same_call(world: World) -> None:
    """Finish and claim are atomic: the finished job's slot is free for the next."""
    world.limit(concurrency=1)
    first, second = world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    assert worker.finish(lease)
    assert ids(worker.take()) == [second]
    assert first == lease.job.id


def test_a_limit_of_one_workspace_does_not_block_another(world: World) -> None:
    """A workspace at its limit is skipped."""
    world.limit("a", concurrency=1)
    world.publish_many(5, "a")
    world.publish_many(3, "b")
    taken = [lease.job.workspace for lease in world.worker().take(10)]
    assert sorted(taken) == ["a", "b", "b", "b"]


def test_a_limit_of_0_blocks_a_workspace(world: World) -> None:
    """With concurrency 0 no job starts until the limit is raised."""
    world.limit(concurrency=0)
    world.publish()
    assert world.worker().take() == []
    world.limit(concurrency=1)
    assert len(world.worker("w2").take()) == 1


def test_a_raised_limit_acts_on_the_backlog_at_once(world: World) -> None:
    """Blocked jobs can be claimed right after."""
    world.limit(concurrency=1)
    world.publish_many(5)
    worker = world.worker()
    worker.take(5)
    world.limit(concurrency=4)
    assert len(worker.take(5)) == 3


def test_a_lowered_limit_stops_no_running_job(world: World) -> None:
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


def test_runtime_limits_can_be_removed(world: World) -> None:
    """Then the configured limits apply again."""
    world.configure(default=Limits(concurrency=1))
    world.limit(concurrency=3)
    world.publish_many(9)
    worker = world.worker()
    assert len(worker.take(9)) == 3
    world.store.set_limits("workspace", "a", None)
    assert world.row().limit == 1


def test_runtime_limits_add_up(world: World) -> None:
    """Setting a weight keeps the concurrency that was set before."""
    world.limit(concurrency=2)
    world.limit(weight=2.0)
    assert world.row().limit is None or world.row().limit == 2
    world.publish_many(5)
    assert len(world.worker().take(5)) == 2


def test_precedence_of_limits(world: World) -> None:
    """Runtime limits override configured ones, and a workspace's own override the default."""
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
    """Otherwise all jobs without a workspace would be limited as one."""
    world.configure(default=Limits(concurrency=1), default_workspace="default")
    world.publish_many(5, "default")
    world.publish_many(5, "other")
    taken = [lease.job.workspace for lease in world.worker().take(10)]
    assert (taken.count("default"), taken.count("other")) == (5, 1)


def test_the_default_workspace_is_not_under_default_runtime_limits(world: World) -> None:
    """This also holds if the configuration sets no limit at all."""
    world.configure()
    world.store.set_limits("default", "", Limits(concurrency=1))
    world.publish_many(5, "default")
    world.publish_many(5, "other")
    assert len(world.worker().take(10)) == 6


def test_another_name_may_be_the_default_workspace(world: World) -> None:
    """Then that workspace is exempt, and ``default`` is like any other."""
    world.configure(default_workspace="unlabelled")
    world.store.set_limits("default", "", Limits(concurrency=1))
    world.publish_many(5, "unlabelled")
    world.publish_many(5, "default")
    assert len(world.worker().take(10)) == 6


def test_a_named_default_workspace_without_limits_is_under_the_defaults(world: World) -> None:
    """Naming it among the workspaces is enough."""
    world.configure(default=Limits(concurrency=1), workspaces={"default": Limits()})
    world.publish_many(5, "default")
    assert len(world.worker().take(5)) == 1


def test_a_named_default_workspace_is_under_the_defaults(world: World) -> None:
    """The default limits apply to it once it is named among the workspaces."""
    world.configure(default=Limits(concurrency=1), workspaces={"default": Limits(weight=2.0)})
    world.publish_many(5, "default")
    assert len(world.worker().take(5)) == 1


def test_a_default_workspace_with_runtime_limits_is_under_the_defaults(world: World) -> None:
    """Runtime limits name it, too."""
    world.configure(default=Limits(concurrency=1))
    world.limit("default", weight=2.0)
    world.publish_many(5, "default")
    assert len(world.worker().take(5)) == 1


def test_configured_limits_are_stored_once(world: World) -> None:
    """A later configuration without authority changes nothing, and its caller learns that."""
    assert world.configure(default=Limits(concurrency=1))
    assert world.configure(default=Limits(concurrency=1))
    assert not world.configure(default=Limits(concurrency=2))
    world.publish_many(5)
    assert len(world.worker().take(5)) == 1
    assert world.configure(default=Limits(concurrency=2), authoritative=True)
    assert len(world.worker().take(5)) == 1


def test_a_changed_default_reaches_every_workspace(world: World) -> None:
    """Each call settles some of them until all are settled."""
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
    """It also holds for workspaces that are not settled yet."""
    for n in range(600):  # HSCAN returns small hashes whole
        world.publish_many(2, f"w{n}")
    worker = world.worker()
    assert len({lease.job.workspace for lease in worker.take(600)}) == 600
    world.store.set_limits("default", "", Limits(concurrency=1))
    assert [lease for _ in range(20) for lease in worker.take(50)] == []


@pytest.mark.parametrize("scope", ["queue", "total"])
def test_a_shared_limit_blocks_its_node(world: World, scope: str) -> None:
    """A full queue or total starts no job until a slot is freed."""
    world.store.set_limits(scope, "q" if scope == "queue" else "", Limits(concurrency=3))
    for n in range(5):
        world.publish_many(2, f"w{n}")
    worker = world.worker()
    leases = worker.take(10)
    assert len(leases) == 3
    assert worker.take() == []
    worker.finish(leases[0])
    assert len(worker.take(10)) == 1


def test_a_full_queue_does_not_block_others(world: World) -> None:
    """A claim skips it and takes from the next queue."""
    world.store.set_limits("queue", "full", Limits(concurrency=0))
    world.publish(queue="full")
    world.publish("a", "x", queue="open")
    assert ids(world.worker().take(5, "full", "open")) == ["x"]


def test_a_rate_spaces_starts(world: World) -> None:
    """At 2 per second a job starts every half second."""
    world.limit(rate=2.0)
    world.publish_many(10)
    worker, starts = world.worker(), 0
    assert len(worker.take(10)) == 1
    for _ in range(32):
        world.clock.advance(0.125)
        starts += len(worker.take(10))
    assert starts == 8


def test_a_burst_starts_at_once_after_a_quiet_time(world: World) -> None:
    """After the burst, starts follow the rate."""
    world.limit(rate=1.0, burst=3.0)
    world.publish_many(10)
    worker = world.worker()
    assert len(worker.take(10)) == 3
    world.clock.advance(1)
    assert len(worker.take(10)) == 1


def test_a_rate_is_kept_while_a_workspace_is_idle(world: World) -> None:
    """A workspace that has no jobs for a moment gets no second burst."""
    world.limit(rate=0.1)
    worker = world.worker()
    world.publish()
    worker.finish(worker.take_one(), 0.0)
    world.publish()
    assert worker.take() == []
    world.pass_time(10)
    assert len(worker.take()) == 1


def test_a_raised_rate_acts_at_once(world: World) -> None:
    """It applies to a workspace that waits for the old rate."""
    world.limit(rate=0.001)
    world.publish_many(2)
    worker = world.worker()
    assert len(worker.take(2)) == 1
    world.store.set_limits("workspace", "a", None)
    assert len(worker.take(2)) == 1


def test_count_charges_each_job_the_same(world: World) -> None:
    """With fairness "count" workspaces start equally many jobs, however long these take."""
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


def test_weights_change_at_runtime(world: World) -> None:
    """A raised weight changes the shares from then on."""
    world.publish_many(60, "a")
    world.publish_many(60, "b")
    worker = world.worker()
    worker.take(20)
    world.limit("b", weight=4.0)
    taken = [lease.job.workspace for lease in worker.take(50)]
    assert abs(taken.count("b") - 40) <= 2


def test_a_default_rate_spaces_the_starts_of_each_workspace(world: World) -> None:
    """Each by itself, with the default burst; a workspace with a rate of its own has that."""
    world.configure(
        default=Limits(rate=0.1, burst=2.0), workspaces={"fast": Limits(rate=100.0, burst=9.0)}
    )
    for name in ("a", "b", "fast"):
        world.publish_many(5, name)
    worker = world.worker()
    started = [lease.job.workspace for lease in worker.take(15)]
    assert {name: started.count(name) for name in "ab"} == {"a": 2, "b": 2}
    assert started.count("fast") == 5
    world.pass_time(10.1)
    assert sorted(lease.job.workspace for lease in worker.take(15)) == ["a", "b"]
