"""Why a job or a workspace waits: every reason, since when, until when, and how many are ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import Hold, JobState, Limits, Pause, Why
from tests.contract.world import World


def why(world: World, job_id: str | None = None, workspace: str | None = None) -> Why:
    """Ask."""
    named = workspace or ("a" if job_id is None else None)
    return world.store.why(workspace=named, job_id=job_id, queue=None)


def only(world: World, job_id: str | None = None, workspace: str | None = None) -> Hold:
    """The one thing that holds."""
    (hold,) = why(world, job_id, workspace).holds
    return hold


def full(world: World, scope: str, name: str, **limits: Any) -> None:
    """A limit of one there."""
    world.store.set_limits(scope, name, Limits(**limits))


LEVELS: dict[str, tuple[Callable[[World], None], str]] = {
    "workspace": (lambda world: full(world, "workspace", "a", concurrency=1), "a"),
    "task": (lambda world: full(world, "task", "t", concurrency=1), "t"),
    "workspace_task": (lambda world: full(world, "task", "t", workspace_concurrency=1), "t"),
    "queue": (lambda world: full(world, "queue", "q", concurrency=1), "q"),
    "total": (lambda world: full(world, "total", "", concurrency=1), ""),
}


@pytest.mark.parametrize("scope", LEVELS)
def test_a_full_level_is_named(world: World, scope: str) -> None:
    """With its limit, what runs there, and since when it holds."""
    limit, name = LEVELS[scope]
    limit(world)
    world.publish_many(3)
    worker = world.worker()
    lease = worker.take_one()
    since = world.clock()
    world.clock.advance(7)
    found = only(world)
    assert (found.kind, found.scope, found.name) == ("concurrency", scope, name)
    assert (found.limit, found.used, found.until) == (1, 1, None)
    assert found.since == pytest.approx(since, abs=0.01)
    worker.finish(lease, 7.0)
    assert [hold for hold in why(world).holds if hold.kind != "worker"] == []


def test_a_full_group_is_named(world: World) -> None:
    """Also to a workspace of it that runs nothing."""
    world.limit("org", concurrency=1)
    for name in "ab":
        world.limit(name, parent="org")
        world.publish_many(2, name)
    runs = world.worker().take_one().job.workspace
    since = world.clock()
    world.clock.advance(3)
    for name in "ab":
        found = only(world, workspace=name)
        assert (found.kind, found.scope, found.name) == ("concurrency", "group", "org")
        assert found.since == pytest.approx(since, abs=0.01)
    assert why(world, workspace=runs).running == 1


def test_a_full_level_that_was_not_when_it_came(world: World) -> None:
    """A workspace that comes to a full one is held since it came."""
    world.limit("a", concurrency=1)
    world.publish()
    world.worker().take_one()
    world.clock.advance(50)
    world.publish()
    assert only(world).since == pytest.approx(world.clock(), abs=0.01)


def test_what_takes_no_time_is_expected_soon(world: World) -> None:
    """An average of nothing is known; only where nothing ever ran nothing is expected."""
    world.publish_many(3)
    worker = world.worker()
    worker.finish(worker.take_one(), 0.0)
    worker.take_one()
    [line] = why(world).lines
    assert line.expected_seconds == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("scope", ["workspace", "task"])
def test_a_rate_tells_the_next_start(world: World, scope: str) -> None:
    """Exactly, and then it may start."""
    world.store.set_limits(scope, "a" if scope == "workspace" else "t", Limits(rate=0.1))
    world.publish_many(3)
    worker = world.worker()
    start = world.clock()
    worker.finish(worker.take_one(), 0.0)
    world.clock.advance(4)
    found = only(world)
    assert (found.kind, found.scope, found.limit) == ("rate", scope, 0.1)
    assert found.until == pytest.approx(start + 10, abs=1e-6)
    first, last = why(world, "j1"), why(world, "j2")
    assert first.lines[0].expected_seconds == pytest.approx(6, abs=1e-6)
    assert last.lines[0].expected_seconds == pytest.approx(16, abs=1e-6)
    world.clock.advance(6.001)
    assert [hold.kind for hold in why(world, "j1").holds] == ["worker"]
    world.reap()
    assert why(world, "j1").holds == ()
    assert worker.take_one().job.id == "j1"


@pytest.mark.parametrize(
    ("scope", "name"), [("workspace", "a"), ("queue", "q"), ("task", "t"), ("total", "")]
)
def test_a_pause_is_named(world: World, scope: str, name: str) -> None:
    """Since it was paused, not since somebody paused it again; nobody knows until when."""
    world.publish()
    since = world.clock()
    for _ in range(2):
        world.store.pause(scope, name, Pause.PAUSED)
        world.clock.advance(60)
    found = only(world)
    assert (found.kind, found.scope, found.name) == ("pause", scope, name)
    assert found.since == pytest.approx(since, abs=0.01)
    assert why(world).lines[0].expected_seconds is None


def test_all_that_holds_is_named(world: World) -> None:
    """What else must end before it may start."""
    world.limit("a", concurrency=1)
    full(world, "queue", "q", concurrency=1)
    world.publish_many(2)
    world.worker().take_one()
    world.store.pause("workspace", "a", Pause.PAUSED)
    kinds = {(hold.kind, hold.scope) for hold in why(world).holds}
    assert kinds == {("pause", "workspace"), ("concurrency", "workspace"), ("concurrency", "queue")}


def test_not_before_its_time(world: World) -> None:
    """A scheduled job says when; so does a workspace that has nothing else."""
    job = world.publish(delay_seconds=90)
    due = world.clock() + 90
    for found in (why(world, job), why(world)):
        assert found.state is JobState.SCHEDULED
        (hold,) = found.holds
        assert hold.kind == "time"
        assert hold.until == pytest.approx(due)
    world.publish()
    assert why(world).state is JobState.WAITING


def test_nothing_waits(world: World) -> None:
    """Idle, whether or not something runs; so is one that was never seen."""
    world.publish()
    world.worker().take_one()
    found = why(world)
    assert (found.state, found.running, found.lines) == (JobState.IDLE, 1, ())
    assert why(world, workspace="nobody").state is JobState.IDLE


def test_no_worker_takes_from_its_queue(world: World) -> None:
    """Once a worker would have come; not while one runs something there."""
    world.publish_many(2)
    assert why(world).holds == ()
    world.clock.advance(6)
    found = only(world)
    assert (found.kind, found.scope, found.name) == ("worker", "queue", "q")
    assert why(world).lines[0].expected_seconds is None
    world.worker().take_one()
    assert why(world).holds == ()


def test_in_line(world: World) -> None:
    """How many of its own and how many turns of others come before, and about how long it takes."""
    for name in "ab":
        world.publish_many(5, name)
    worker = world.worker()
    for _ in range(2):
        lease = worker.take_one()
        world.clock.advance(2)
        worker.finish(lease, 2.0)
    worker.take_one()
    first, third = (why(world, f"j{n}").lines[0] for n in (2, 4))
    assert (first.jobs_ahead, third.jobs_ahead) == (0, 2)
    assert {why(world, workspace=name).lines[0].turns_ahead for name in "ab"} == {0, 1}
    assert first.holds == third.holds == ()
    assert first.expected_seconds is not None
    assert third.expected_seconds == pytest.approx(first.expected_seconds + 8)


def test_priorities_come_before(world: World) -> None:
    """Jobs of a lower number count as ahead, wherever they stand."""
    last = world.publish(priority=5)
    world.publish(priority=9)
    world.publish_many(3)
    assert why(world, last).lines[0].jobs_ahead == 3
    assert why(world).lines[0].waiting == 5


def test_a_running_job(world: World) -> None:
    """Since when, and who holds its lease."""
    job = world.publish("a: {*}\n")
    world.worker("host:7").take_one()
    since = world.clock()
    world.clock.advance(3)
    found = why(world, job)
    assert (found.state, found.workspace, found.detail) == (
        JobState.RUNNING,
        "a: {*}\n",
        "host:7",
    )
    assert found.since == pytest.approx(since)


def test_a_dead_job(world: World) -> None:
    """Since when, and of what; it is found with and without its workspace."""
    job = world.publish()
    worker = world.worker()
    worker.reject(worker.take_one(), "it is\nbad")
    since = world.clock()
    world.clock.advance(500)
    for found in (why(world, job), why(world, job, "a")):
        assert (found.state, found.detail) == (JobState.DEAD, "it is\nbad")
        assert found.since == pytest.approx(since)
    assert why(world, job, "b").state is JobState.UNKNOWN


def test_a_job_that_is_gone(world: World) -> None:
    """Ended for a minute or two, then unknown, as what never was."""
    job = world.publish()
    worker = world.worker()
    worker.finish(worker.take_one())
    assert why(world, job).state is JobState.ENDED
    world.clock.advance(150)
    assert why(world, job).state is JobState.UNKNOWN
    assert why(world, "never: {*}").state is JobState.UNKNOWN


def test_a_workspace_on_several_queues(world: World) -> None:
    """A line for each; what they have in common holds all of it."""
    world.publish(queue="q")
    world.publish(queue="other")
    world.store.pause("queue", "q", Pause.PAUSED)
    found = why(world)
    assert {line.queue for line in found.lines} == {"q", "other"}
    assert found.holds == ()
    world.store.pause("workspace", "a", Pause.PAUSED)
    assert [hold.scope for hold in why(world).holds] == ["workspace"]


def test_a_task_that_got_a_limit_while_its_jobs_waited(world: World) -> None:
    """Is named before they are sorted out, and what comes after is not."""
    world.publish_many(3)
    other = world.publish(task="other")
    world.worker().take_one()
    world.limit_task(concurrency=1)
    assert only(world, "j1").scope == "task"
    assert why(world, other).holds == ()


def test_asking_changes_nothing(world: World) -> None:
    """Neither an order nor a timer, however often."""
    world.limit_task(rate=0.5)
    for name in "abc":
        world.publish_many(3, name)
    for _ in range(5):
        for name in "abcd":
            why(world, workspace=name)
    worker = world.worker()
    order = [lease.job.workspace for lease in worker.take(9)]
    world.clock.advance(2)
    order += [lease.job.workspace for lease in worker.take(9)]
    assert order == ["a", "b"]
    rows = world.store.snapshot().workspaces
    assert [row.workspace for row in rows] == ["a", "b", "c"]
