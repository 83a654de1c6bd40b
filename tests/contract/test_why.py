"""Why a job or a workspace waits: every blocker, its time, and the jobs ahead."""

from __future__ import annotations

import pytest

from fairqueue import Blocker, JobState, Pause, Why
from fairqueue.adapters import Ending
from fairqueue.explained import explain_blocker, explain_start, explain_workers
from tests.contract.world import LEVELS, WITH_RATES, Worker, World


def why(world: World, job_id: str | None = None, workspace: str | None = None) -> Why:
    """Ask why."""
    named = workspace or ("a" if job_id is None else None)
    return world.views.why(workspace=named, job_id=job_id, queue=None)


def only(world: World, job_id: str | None = None, workspace: str | None = None) -> Blocker:
    """Return the only blocker."""
    (hold,) = why(world, job_id, workspace).blockers
    return hold


@pytest.mark.parametrize("scope", LEVELS)
def test_a_full_level_is_named(world: World, worker: Worker, scope: str) -> None:
    """The blocker has the limit, the usage, and the time since when it blocks."""
    world.limit_level(scope, concurrency=1)
    world.publish_many(3)
    lease = worker.take_one()
    since = world.clock()
    world.clock.advance(7)
    found = only(world)
    assert (found.kind, found.scope, found.name) == ("concurrency", scope, LEVELS[scope][1])
    assert (found.limit, found.used, found.until) == (1, 1, None)
    assert found.since == pytest.approx(since, abs=0.01)
    worker.finish(lease, 7.0)
    assert [hold for hold in why(world).blockers if hold.kind != "worker"] == []


def test_a_full_group_is_named(world: World) -> None:
    """It also blocks a workspace of the group that runs no job."""
    world.group("org", *"ab", jobs=2, concurrency=1)
    runs = world.worker().take_one().job.workspace
    since = world.clock()
    world.clock.advance(3)
    for name in "ab":
        found = only(world, workspace=name)
        assert (found.kind, found.scope, found.name) == ("concurrency", "group", "org")
        assert found.since == pytest.approx(since, abs=0.01)
    assert why(world, workspace=runs).running == 1


def test_a_new_workspace_is_blocked_since_it_came(world: World) -> None:
    """The full level had no effect on it before."""
    world.limit("a", concurrency=1)
    world.publish()
    world.worker().take_one()
    world.clock.advance(50)
    world.publish()
    assert only(world).since == pytest.approx(world.clock(), abs=0.01)


def test_an_average_of_zero_is_an_estimate(world: World, worker: Worker) -> None:
    """A wait of zero is expected then; without any run there is no estimate."""
    world.publish_many(3)
    worker.finish(worker.take_one(), 0.0)
    worker.take_one()
    [line] = why(world).positions
    assert line.expected_seconds == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("scope", WITH_RATES)
def test_a_rate_has_its_next_start(world: World, worker: Worker, scope: str) -> None:
    """The time is exact: a job starts then."""
    world.limit_level(scope, rate=0.1)
    world.publish_many(3)
    world.store.heartbeat("w1", "", "", queues=["q"])
    start = world.clock()
    worker.finish(worker.take_one(), 0.0)
    world.clock.advance(4)
    found = only(world)
    assert (found.kind, found.scope, found.limit) == ("rate", scope, 0.1)
    assert found.until == pytest.approx(start + 10, abs=1e-6)
    first, last = why(world, "j1"), why(world, "j2")
    assert first.positions[0].expected_seconds == pytest.approx(6, abs=1e-6)
    assert last.positions[0].expected_seconds == pytest.approx(16, abs=1e-6)
    world.clock.advance(6.001)
    assert [hold.kind for hold in why(world, "j1").blockers] == ["worker"]
    world.reap()
    assert why(world, "j1").blockers == ()
    assert worker.take_one().job.id == "j1"


@pytest.mark.parametrize(
    ("scope", "name"), [("workspace", "a"), ("queue", "q"), ("task", "t"), ("total", "")]
)
def test_a_pause_is_named(world: World, scope: str, name: str) -> None:
    """It blocks since the first pause, not since a repeated one, and has no end."""
    world.publish()
    since = world.clock()
    for _ in range(2):
        world.store.pause(scope, name, Pause.PAUSED)
        world.clock.advance(60)
    found = only(world)
    assert (found.kind, found.scope, found.name) == ("pause", scope, name)
    assert found.since == pytest.approx(since, abs=0.01)
    assert why(world).positions[0].expected_seconds is None


def test_a_scheduled_job_is_not_due(world: World) -> None:
    """It names its time; so does a workspace that has no other job."""
    job = world.publish(delay_seconds=90)
    due = world.clock() + 90
    for found in (why(world, job), why(world)):
        assert found.state is JobState.SCHEDULED
        (hold,) = found.blockers
        assert hold.kind == "time"
        assert hold.until == pytest.approx(due)
    world.publish()
    assert why(world).state is JobState.WAITING


def test_a_workspace_without_waiting_jobs_is_idle(world: World) -> None:
    """It is idle whether or not a job runs; so is an unknown workspace."""
    world.publish()
    world.worker().take_one()
    found = why(world)
    assert (found.state, found.running, found.positions) == (JobState.IDLE, 1, ())
    assert why(world, workspace="unknown").state is JobState.IDLE


def test_a_queue_without_workers_is_named(world: World) -> None:
    """It is named once a worker should have called, and not while a job of the queue runs."""
    world.store.heartbeat("w1", "", "")  # of an older release: it does not say what it takes
    world.publish_many(2)
    assert why(world).blockers == ()
    world.clock.advance(6)
    found = only(world)
    assert (found.kind, found.scope, found.name, found.used) == ("worker", "queue", "q", None)
    assert why(world).positions[0].expected_seconds is None
    told = "none has come to queue q for 6.0 s; some do not say which queues they take"
    assert told in explain_blocker(found, world.clock())
    world.worker().take_one()
    assert why(world).blockers == ()


def test_a_queue_that_no_worker_takes_is_named_at_once(world: World) -> None:
    """By what the living ones say, and since when: the last one that took it was seen then."""
    world.publish()
    no_worker = "no worker: no living process takes jobs from queue q"
    assert explain_blocker(only(world), 0) == f"{no_worker}; none that ended within a day did"
    world.store.heartbeat("w1", "", "", queues=["mail", "q"], slots=2)
    assert why(world).blockers == ()
    seen = world.clock()
    world.clock.advance(6)
    told = "the process that takes jobs from queue q has not come for 6.0 s"
    assert told in explain_blocker(only(world), world.clock())
    world.clock.advance(44)
    world.store.heartbeat("w2", "", "", queues=["mail"], slots=2)
    world.publish("b")
    (workers,) = [position.workers for position in why(world, workspace="b").positions]
    assert (workers.processes, workers.others, workers.unknown) == (1, 1, 0)
    world.clock.advance(15)
    found = only(world, workspace="b")
    assert found.used == 0
    assert found.since == pytest.approx(seen, abs=0.01)
    assert explain_blocker(found, world.clock()).endswith("; the last one was seen 1 m 05 s ago")


def test_a_queue_that_a_living_worker_took_until_now(world: World) -> None:
    """As after Celery's ``cancel_consumer``: what is said of others is of those that ended."""
    world.store.heartbeat("w1", "", "", queues=["q", "mail"], slots=2)
    world.store.heartbeat("w1", "", "", queues=["mail"], slots=2)
    world.publish()
    told = "no living process takes jobs from queue q; none that ended within a day did"
    assert explain_blocker(only(world), world.clock()).endswith(told)


def test_workers_that_do_not_come_are_counted(world: World) -> None:
    """They take the queue, and run jobs of others, or are stuck, or gone a moment ago."""
    for n in range(2):
        world.store.heartbeat(f"w{n}", "", "", queues=["q", "mail"], slots=1)
    world.publish_many(2, queue="mail")
    world.worker("w0").take_one("mail")
    world.publish()
    told = "workers: 2 processes take jobs from this queue and run 1 of 2"
    assert explain_workers(why(world).positions[-1]) == told
    world.worker("w1").take_one("mail")
    world.clock.advance(7)
    (found,) = why(world, "j2").blockers
    assert (found.kind, found.used) == ("worker", 2)
    told = "none of the 2 processes that take jobs from queue q has come for 7.0 s: busy elsewhere"
    assert told in explain_blocker(found, world.clock())


def test_the_position_in_the_queue(world: World, worker: Worker) -> None:
    """It counts own jobs and others' turns that come first, and estimates the wait."""
    for name in "ab":
        world.publish_many(5, name)
    for _ in range(2):
        lease = worker.take_one()
        world.clock.advance(2)
        worker.finish(lease, 2.0)
    worker.take_one()
    first, third = (why(world, f"j{n}").positions[0] for n in (2, 4))
    assert (first.jobs_ahead, third.jobs_ahead) == (0, 2)
    assert {why(world, workspace=name).positions[0].turns_ahead for name in "ab"} == {0, 1}
    assert first.blockers == third.blockers == ()
    assert first.expected_seconds is not None
    assert third.expected_seconds == pytest.approx(first.expected_seconds + 8)


def expected(world: World, workspace: str = "a", at: int = 0) -> float | None:
    """In how many seconds the next job of a workspace is expected to start."""
    return why(world, workspace=workspace).positions[at].expected_seconds


def measure(world: World, worker: Worker, seconds: float, task: str = "t") -> None:
    """Let one job of this task run for so long."""
    world.publish(task=task)
    lease = worker.take_one()
    world.clock.advance(seconds)
    worker.finish(lease, seconds)


def test_a_job_behind_a_long_one_is_expected_at_its_end(world: World, worker: Worker) -> None:
    """By the estimate of what runs, less its time so far, and not by that of what waits."""
    measure(world, worker, 240.0, "long")
    for _ in range(3):
        measure(world, worker, 0.1, "short")
    world.publish(task="long")
    lease = worker.take_one()
    world.publish("b", task="short")
    assert expected(world, "b") == pytest.approx(240, abs=1)
    world.clock.advance(200)
    assert expected(world, "b") == pytest.approx(40, abs=1)
    world.clock.advance(50)  # it is late, and taken to be as late again
    assert expected(world, "b") == pytest.approx(10, abs=1)
    worker.finish(lease, 250.0)


def test_a_job_that_takes_far_longer_than_usual_has_no_known_end(world: World) -> None:
    """Nor has one whose task was never measured; then no start is expected at any time."""
    worker = world.worker()
    world.publish_many(2, task="new")
    lease = worker.take_one()
    assert expected(world) is None
    worker.finish(lease, 0.0)
    worker.finish(worker.take_one(), 0.0)
    measure(world, worker, 0.1)
    world.publish_many(2)
    worker.take_one()
    assert expected(world) == pytest.approx(0.1, abs=0.01)
    world.clock.advance(2)
    assert expected(world) is None
    assert "the start time is unknown" in explain_start(why(world).positions[0])


def test_slots_of_workers_are_counted(world: World) -> None:
    """A free one starts it at once; one that runs a job of another queue is not free."""
    worker = world.worker("w1")
    measure(world, worker, 10.0)
    measure(world, worker, 60.0, "long")
    world.store.heartbeat("w1", "", "", queues=["q", "mail"], slots=2)
    world.publish(queue="mail", task="long")
    worker.take_one("mail")
    world.publish_many(2)
    assert expected(world) == pytest.approx(0, abs=1e-6)
    assert "starts at any moment" in explain_start(why(world).positions[0])
    lease = worker.take_one()
    assert expected(world) == pytest.approx(10, abs=0.1)
    worker.finish(lease, 0.0, Ending.ACK)
    world.clock.advance(45)  # it should have come, and has not told anything since
    assert expected(world) is None


def test_what_is_claimed_ahead_takes_no_slot(world: World) -> None:
    """It starts before, one after the other."""
    worker = world.worker("w1")
    measure(world, worker, 10.0)
    world.store.heartbeat("w1", "", "", queues=["q"], slots=1)
    world.publish_many(4)
    worker.take(3)
    assert expected(world) == pytest.approx(30, abs=0.1)


def test_a_full_limit_is_waited_for(world: World) -> None:
    """Until as many have ended as leave a slot of it."""
    worker = world.worker("w1")
    measure(world, worker, 10.0)
    world.store.heartbeat("w1", "", "", queues=["q"], slots=8)
    world.publish_many(4)
    worker.take_one()
    world.clock.advance(4)
    worker.take_one()
    world.limit("a", concurrency=2)
    assert expected(world) == pytest.approx(6, abs=0.1)
    world.limit("a", concurrency=1)
    assert expected(world) == pytest.approx(10, abs=0.1)
    world.limit("a", concurrency=0)
    assert expected(world) is None


def test_the_leases_of_many_are_a_sample(world: World) -> None:
    """Of more than 1,000, those that were looked at stand for all."""
    worker = world.worker("w1")
    measure(world, worker, 10.0)
    world.publish_many(1500)
    while worker.take(100):
        pass
    world.publish_many(3000)
    later = [f"j{n}" for n in (1501, 4000)]
    first, last = (why(world, job).positions[0].expected_seconds for job in later)
    assert first == pytest.approx(10, abs=0.5)
    assert last == pytest.approx(20, abs=0.5)


def test_more_urgent_jobs_are_ahead(world: World) -> None:
    """Jobs with a lower priority number count as ahead, wherever they stand."""
    last = world.publish(priority=5)
    world.publish(priority=9)
    world.publish_many(3)
    assert why(world, last).positions[0].jobs_ahead == 3
    assert why(world).positions[0].waiting == 5


def test_a_workspace_on_several_queues(world: World) -> None:
    """Each queue has its own position; common blockers apply to all."""
    world.publish(queue="q")
    world.publish(queue="other")
    world.store.pause("queue", "q", Pause.PAUSED)
    found = why(world)
    assert {line.queue for line in found.positions} == {"q", "other"}
    assert found.blockers == ()
    world.store.pause("workspace", "a", Pause.PAUSED)
    assert [hold.scope for hold in why(world).blockers] == ["workspace"]


def test_a_new_task_limit_is_named_at_once(world: World) -> None:
    """It is named before the waiting jobs are moved to its lane; jobs after them are not."""
    world.publish_many(3)
    other = world.publish(task="other")
    world.worker().take_one()
    world.limit_task(concurrency=1)
    assert only(world, "j1").scope == "task"
    assert why(world, other).blockers == ()


def test_asking_changes_nothing(world: World, worker: Worker) -> None:
    """Any number of questions changes neither the order nor a timer."""
    world.limit_task(rate=0.5)
    for name in "abc":
        world.publish_many(3, name)
    for _ in range(5):
        for name in "abcd":
            why(world, workspace=name)
    order = [lease.job.workspace for lease in worker.take(9)]
    world.clock.advance(2)
    order += [lease.job.workspace for lease in worker.take(9)]
    assert order == ["a", "b"]
    rows = world.stats().workspaces
    assert [row.workspace for row in rows] == ["a", "b", "c"]
