"""Limits of workspaces and queues are never exceeded, and change at runtime."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import Limits
from fairqueue.adapters import Finish
from tests.contract.world import LEVELS, WITH_RATES, Worker, World

JOBS_OF = {**dict.fromkeys(("group", *LEVELS), "ab"), "workspace": "a", "workspace_task": "a"}
"""Whose jobs count for a limit of each level."""


def limit(world: World, level: str, n: int) -> None:
    """Set the concurrency of a level."""
    if level == "group":
        world.group("org", *"ab", concurrency=n)
    else:
        world.limit_level(level, concurrency=n)


@pytest.mark.parametrize("level", JOBS_OF)
def test_a_limit_is_never_exceeded(world: World, level: str) -> None:
    """It holds for any number of workspaces, claims and workers, and others go on."""
    names = JOBS_OF[level]
    limit(world, level, 2)
    for name in names:
        world.publish_many(5, name)
    assert len(world.worker("w1").take(5)) == 2
    assert world.worker("w2").take(5) == []
    if level not in {"queue", "total"}:
        world.publish_many(3, "other", task="other")
        assert [x.job.workspace for x in world.worker("w3").take(9)] == ["other"] * 3


@pytest.mark.parametrize("level", JOBS_OF)
def test_a_limit_changes_at_once(world: World, worker: Worker, level: str) -> None:
    """A raised one acts on the backlog; a lowered one stops no job, and none starts above it."""
    names = JOBS_OF[level]
    for name in names:
        world.publish_many(9, name)
    limit(world, level, 0)
    assert [worker.take(5) for _ in range(3)] == [[]] * 3
    limit(world, level, 4)
    leases = worker.take(5)
    assert len(leases) == 4
    limit(world, level, 2)
    for lease in leases[:2]:
        assert worker.take(5) == []
        assert worker.finish(lease)
    assert worker.take(5) == []
    assert worker.finish(leases[2])
    assert len(worker.take(5)) == 1


@pytest.mark.parametrize("level", JOBS_OF)
def test_a_freed_slot_can_be_taken_in_the_same_call(world: World, level: str) -> None:
    """Finish and claim are atomic, and workspaces under the limit take turns."""
    names = JOBS_OF[level]
    limit(world, level, 1)
    for name in names:
        world.publish_many(4, name)
    worker, started = world.worker(), []
    lease = worker.take_one()
    for _ in range(3):
        started.append(lease.job.workspace)
        world.clock.advance(1)
        (lease,) = worker.claim(1, finishes=[Finish(lease.fence, seconds=1.0)]).leases
    assert [*started, lease.job.workspace] == [names[n % len(names)] for n in range(4)]


@pytest.mark.parametrize("level", WITH_RATES)
def test_a_rate_spaces_starts(world: World, level: str) -> None:
    """At 2 per second a job starts each half second; a claim tells when, and others go on."""
    world.limit_level(level, rate=2.0)
    world.publish_many(10)
    world.publish_many(3, "other", task="other")
    worker, starts = world.worker(), 0
    assert len(worker.take(10)) == 1 + 3
    assert worker.claim().wait_seconds == pytest.approx(0.5)
    world.clock.advance(0.499)
    assert worker.take() == []
    world.clock.advance(0.001)
    assert len(worker.take()) == 1
    for _ in range(32):
        world.clock.advance(0.125)
        starts += len(worker.take(10))
    assert starts == 8


@pytest.mark.parametrize("level", WITH_RATES)
def test_a_burst_starts_at_once_after_a_quiet_time(world: World, level: str) -> None:
    """After it, starts follow the rate; without the rate, all that waits may start."""
    world.limit_level(level, rate=1.0, burst=3.0)
    world.publish_many(10)
    worker = world.worker()
    assert len(worker.take(10)) == 3
    world.clock.advance(1)
    assert len(worker.take(10)) == 1
    world.store.set_limits(*(("workspace", "a") if level == "workspace" else ("task", "t")), None)
    assert len(worker.take(10)) == 6


@pytest.mark.parametrize("level", WITH_RATES)
@pytest.mark.parametrize("is_unset_first", [False, True])
def test_a_rate_that_is_raised_applies_at_once(
    world: World, level: str, is_unset_first: bool
) -> None:
    """What was started under the lower one holds nothing back for as long as that would have."""
    world.limit_level(level, rate=0.001, burst=5.0)
    world.publish_many(20)
    worker = world.worker()
    assert len(worker.take(10)) == 5
    if is_unset_first:
        world.store.set_limits(
            *(("workspace", "a") if level == "workspace" else ("task", "t")), None
        )
    world.limit_level(level, rate=2.0, burst=5.0)
    assert worker.claim().wait_seconds == pytest.approx(0.5)
    for _ in range(4):
        world.clock.advance(0.501)
        assert len(worker.take(10)) == 1


@pytest.mark.parametrize("level", WITH_RATES)
def test_a_rate_is_kept_while_nothing_waits_for_it(world: World, level: str) -> None:
    """Where there are no jobs for a moment, there is no second burst."""
    world.limit_level(level, rate=0.1)
    worker = world.worker()
    world.publish()
    worker.finish(worker.take_one(), 0.0)
    world.publish()
    assert worker.take() == []
    world.pass_time(10)
    assert len(worker.take()) == 1


@pytest.mark.parametrize("level", WITH_RATES[1:])
def test_what_waits_for_a_task_s_rate_holds_no_slot(world: World, level: str) -> None:
    """The rate is checked before the lease: another task can use the workspace's only slot."""
    world.limit_level(level, rate=0.1)
    world.limit(concurrency=1)
    world.publish_many(2)
    worker = world.worker()
    worker.finish(worker.take_one())
    assert worker.take() == []
    world.publish(task="other")
    assert [lease.job.task for lease in worker.take(5)] == ["other"]


OWN: dict[str, Any] = {"workspaces": {"default": Limits()}}


@pytest.mark.parametrize(
    ("configured", "live", "started"),
    [
        ({"default": Limits(concurrency=1)}, {}, (5, 1)),
        ({}, {"default": Limits(concurrency=1)}, (5, 1)),
        ({"default_workspace": "other"}, {"default": Limits(concurrency=1)}, (1, 5)),
        ({"default": Limits(concurrency=1), **OWN}, {}, (1, 1)),
        ({"default": Limits(concurrency=1)}, {"workspace": Limits(weight=2.0)}, (1, 1)),
    ],
)
def test_the_default_workspace_is_not_under_the_default_limits(
    world: World, configured: dict[str, Any], live: dict[str, Limits], started: tuple[int, int]
) -> None:
    """Or all jobs without a workspace would be limited as one; it is once it is named itself."""
    world.configure(**configured)
    for scope, limits in live.items():
        world.store.set_limits(scope, "default" if scope == "workspace" else "", limits)
    world.publish_many(5, "default")
    world.publish_many(5, "other")
    taken = [lease.job.workspace for lease in world.worker().take(10)]
    assert (taken.count("default"), taken.count("other")) == started


def test_configured_limits_are_stored_once(world: World) -> None:
    """A later configuration without authority changes nothing, and its caller learns that."""
    assert world.configure(default=Limits(concurrency=1))
    assert world.configure(default=Limits(concurrency=1))
    assert not world.configure(default=Limits(concurrency=2))
    world.publish_many(5)
    assert len(world.worker().take(5)) == 1
    assert world.configure(default=Limits(concurrency=2), authoritative=True)
    assert len(world.worker().take(5)) == 1


def test_a_changed_default_reaches_every_workspace(world: World, worker: Worker) -> None:
    """Each call settles some of them until all are settled."""
    world.configure(default=Limits(concurrency=1))
    names = [f"w{n}" for n in range(150)]
    for name in names:
        world.publish_many(2, name)
    assert len(worker.take(400)) == 150
    world.store.set_limits("default", "", Limits(concurrency=2))
    taken = [lease for _ in range(20) for lease in worker.take(100)]
    assert sorted(lease.job.workspace for lease in taken) == sorted(names)


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


def test_a_default_rate_spaces_the_starts_of_each_workspace(world: World, worker: Worker) -> None:
    """Each by itself, with the default burst; a workspace with a rate of its own has that."""
    world.configure(
        default=Limits(rate=0.1, burst=2.0), workspaces={"fast": Limits(rate=100.0, burst=9.0)}
    )
    for name in ("a", "b", "fast"):
        world.publish_many(5, name)
    started = [lease.job.workspace for lease in worker.take(15)]
    assert {name: started.count(name) for name in "ab"} == {"a": 2, "b": 2}
    assert started.count("fast") == 5
    world.pass_time(10.1)
    assert sorted(lease.job.workspace for lease in worker.take(15)) == ["a", "b"]
