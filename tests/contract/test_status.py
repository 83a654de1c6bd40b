"""What ``queue.job`` says of a job to its own workspace, and what a running one reports."""

from __future__ import annotations

import pytest

from fairqueue import Job, JobState, JobStatus
from fairqueue._reports import JobProgress
from fairqueue.adapters import Admission
from fairqueue.explained import explain_state
from fairqueue.operate import Statuses
from tests.contract.world import Worker, World, sound


def status(world: World, job_id: str, workspace: str = "a") -> JobStatus | None:
    """Ask for the status of a job."""
    return Statuses(lambda: world.store).job(job_id, workspace=workspace)


def known(world: World, job_id: str) -> JobStatus:
    """Ask for the status of a job that is there."""
    found = status(world, job_id)
    assert found is not None
    return found


def test_the_life_of_a_job(world: World) -> None:
    """Scheduled, waiting, running, ended; each with its times."""
    job, worker = world.publish(delay_seconds=60, task="t t"), world.worker()
    found = known(world, job)
    published = world.clock()
    assert (found.state, found.task, found.queue) == (JobState.SCHEDULED, "t t", "q")
    assert found.due == pytest.approx(published + 60, abs=0.1)
    assert found.published == pytest.approx(published)
    world.pass_time(70)
    found = known(world, job)
    assert found.state is JobState.WAITING
    assert found.waited_seconds == pytest.approx(10, abs=0.1)
    assert [blocker.kind for blocker in found.blockers] == ["worker"]
    lease = worker.take_one()
    world.clock.advance(5)
    found = known(world, job)
    assert (found.state, found.deliveries, found.due) == (JobState.RUNNING, 1, None)
    assert found.run_seconds == pytest.approx(5)
    assert found.waited_seconds == pytest.approx(10, abs=0.1)
    worker.finish(lease)
    assert known(world, job).state is JobState.ENDED
    world.pass_time(180)
    assert status(world, job) is None


def test_a_lease_that_has_ended_is_told(world: World) -> None:
    """Its worker may be gone: the job counts as running until the next worker that claims."""
    job, worker = world.publish(), world.worker()
    lease = worker.take_one()
    world.clock.advance(lease.lease_seconds - 2)
    why = world.store.why(job_id=job, workspace="a", queue="q")
    assert why.job is not None
    assert why.job.lease_seconds_left == pytest.approx(2)
    assert "lease" not in explain_state(why)
    world.clock.advance(7)
    why = world.store.why(job_id=job, workspace="a", queue="q")
    assert explain_state(why).endswith(
        "; its lease ended 5.0 s ago: the next worker that claims gives the job back"
    )


def test_a_dead_job_says_why(world: World) -> None:
    """Its reason, until it is purged."""
    job, worker = world.publish(task="t"), world.worker()
    worker.reject(worker.take_one(), "too large")
    found = known(world, job)
    assert (found.state, found.reason, found.task) == (JobState.DEAD, "too large", "t")


@pytest.mark.parametrize("end", ["waits", "runs", "ended", "dead"])
def test_another_workspace_learns_nothing(world: World, end: str) -> None:
    """A foreign job and an unknown one give the same None, in the same number of calls."""
    job, worker = world.publish("a"), world.worker()
    world.publish("b")
    if end != "waits":
        lease = worker.take_one()
        assert lease.job.id == job
        if end != "runs":
            (worker.finish if end == "ended" else worker.reject)(lease)
    assert status(world, job) is not None
    assert status(world, job, "b") is None
    assert status(world, "unknown", "b") is None


def _report(world: World, fence: int, text: str = "3 10 rows", workspace: str = "a") -> bool:
    return world.store.note_progress(fence, workspace, text)


def test_progress_belongs_to_the_lease(world: World) -> None:
    """It is shown while the lease lives; a redelivery begins without it."""
    job, worker = world.publish(), world.worker()
    lease = worker.take_one()
    assert known(world, job).progress is None
    assert _report(world, lease.fence)
    world.clock.advance(3)
    told = JobProgress(3, 10, "rows", 0.0)
    assert known(world, job).progress == told
    (row,) = world.store.running(9).jobs
    assert row.progress == told
    assert row.progress.seconds == pytest.approx(3, abs=0.01)
    assert str(row.progress) == "3/10 rows, 3.0 s ago"
    world.pass_time(40)
    assert known(world, job).progress is None
    again = worker.take_one()
    assert known(world, job).progress is None
    assert not _report(world, lease.fence)
    assert known(world, job).progress is None
    assert _report(world, again.fence, "1 - %")
    assert known(world, job).progress == JobProgress(1, None, "", 0.0)
    assert not _report(world, again.fence, workspace="b")
    assert sound(world)


def test_reports_of_ended_runs_go(world: World, worker: Worker) -> None:
    """A report takes away those of three others, and the rebuild the rest."""
    world.publish_many(30)
    leases = worker.take(30)
    for lease in leases:
        _report(world, lease.fence)
    key = world.store.engine.keys.key("progress")
    for lease in leases[1:]:
        worker.finish(lease)
    _report(world, leases[0].fence, "4 10 rows")
    assert world.store.engine.command("HLEN", key) < 30
    for _ in range(100):
        world.clock.advance(10)
        worker.renew(leases[0])
        world.reap()
    assert [int(each) for each in world.store.engine.command("HKEYS", key)] == [leases[0].fence]
    assert sound(world)


def test_a_damaged_letter_is_dead_all_the_same(world: World) -> None:
    """Nothing more is known of it, and ``why`` says so."""
    job, worker = world.publish(), world.worker()
    worker.reject(worker.take_one())
    engine = world.store.engine
    key = engine.keys.key("dead_letters", "a")
    engine.command("HSET", key, f"a/q/{job}", "5 q bad 1")
    found = world.store.why(workspace="a", job_id=job, queue="q")
    assert (found.state, found.job) == (JobState.DEAD, None)


def test_a_retry_is_found_by_the_id_of_its_first_run(world: World, worker: Worker) -> None:
    """The framework's id leads to each retry in turn, and to its dead letter."""
    world.publish("a", "task-1")
    lease, previous = worker.take_one(), "task-1"
    for n in "12":
        retry = f"{n * 16}~task-1"
        job = Job(retry, "a", "q", "t", b"", delay_seconds=5)
        world.store.publish(job, Admission(exempt=True, retry_of=lease.fence))
        worker.finish(lease)
        assert (found := known(world, "task-1")).job_id == retry
        assert found.state is JobState.SCHEDULED
        assert status(world, "task-1", "b") is None
        world.pass_time(10)
        lease = worker.take_one()
        assert (lease.job.id, previous) == (retry, previous)
        previous = retry
    worker.reject(lease, "broken")
    assert known(world, "task-1").state is JobState.DEAD
    assert sound(world)


def test_a_retry_that_holds_a_unique_key_is_found(world: World) -> None:
    """It keeps both: the key that its first run has taken, and the framework's id."""
    worker: Worker = world.worker()
    world.store.publish(Job("task-1", "a", "q", "t", b""), Admission(unique_key="k"))
    lease = worker.take_one()
    retry = Job(f"{'r' * 16}~task-1", "a", "q", "t", b"")
    world.store.publish(retry, Admission(exempt=True, retry_of=lease.fence))
    worker.finish(lease)
    other = world.store.publish(Job("other", "a", "q", "t", b""), Admission(unique_key="k"))
    assert other == retry.id == known(world, "task-1").job_id
    assert sound(world)
