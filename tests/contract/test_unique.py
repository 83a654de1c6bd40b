"""Unique keys: for each key, workspace and task there is at most one job at a time."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, FairQueue, Job, Outcome
from fairqueue.adapters import Admission, Ending
from fairqueue.errors import UniqueKeyHeld
from tests.contract.world import Worker, World

CREATED, EXISTING, REPLACED = Outcome.CREATED, Outcome.EXISTING, Outcome.REPLACED


def publish(
    world: World,
    job_id: str,
    *,
    key: str | None = "k",
    seconds: float | None = None,
    workspace: str = "a",
    task: str = "t",
    exempt: bool = False,
    delay_seconds: float = 0.0,
) -> tuple[Outcome, str]:
    """Publish with a unique key."""
    job = Job(job_id, workspace, "q", task, b"", delay_seconds=delay_seconds)
    admission = Admission(exempt=exempt, unique_key=key, unique_for=seconds)
    published = world.store.publish(job, admission)
    return published.outcome, str(published)


def test_a_duplicate_finds_the_first_job(world: World, worker: Worker) -> None:
    """While the first waits, is scheduled or runs, nothing is stored and its id is returned."""
    assert publish(world, "x", delay_seconds=3) == (CREATED, "x")
    assert publish(world, "y") == (EXISTING, "x")
    world.clock.advance(3)
    lease = worker.take_one()
    assert publish(world, "y") == (EXISTING, "x")
    assert world.row().waiting == 0
    worker.release(lease)
    assert publish(world, "y") == (EXISTING, "x")
    worker.finish(worker.take_one())
    assert publish(world, "y") == (CREATED, "y")


def test_a_key_belongs_to_a_workspace_and_a_task(world: World) -> None:
    """Another workspace or task can use the same key."""
    publish(world, "x")
    assert publish(world, "y", workspace="b")[0] is CREATED
    assert publish(world, "z", task="other: {t}")[0] is CREATED
    assert publish(world, "w", key="k: {other}")[0] is CREATED
    assert publish(world, "v", key="k: {other}") == (EXISTING, "w")


def test_a_key_may_hold_for_a_fixed_time(world: World, worker: Worker) -> None:
    """It holds that long even if its job ends, and no longer even if its job lives."""
    publish(world, "x", seconds=60)
    worker.finish(worker.take_one())
    world.clock.advance(59)
    assert publish(world, "y", seconds=60) == (EXISTING, "x")
    world.clock.advance(1)
    assert publish(world, "y", seconds=60) == (CREATED, "y")
    world.clock.advance(61)
    assert publish(world, "z", seconds=60) == (CREATED, "z")


def test_a_cancelled_job_frees_no_key_of_another(world: World) -> None:
    """Its own time was over, and another job has taken the key."""
    publish(world, "x", seconds=60)
    world.clock.advance(60)
    publish(world, "y", seconds=60)
    assert world.jobs.cancel("x")
    assert publish(world, "z", seconds=60) == (EXISTING, "y")


@pytest.mark.parametrize("seconds", [None, 3600.0])
def test_a_dead_job_does_not_block_its_key(world: World, seconds: float | None) -> None:
    """The next job takes over the key."""
    publish(world, "x", seconds=seconds)
    worker = world.worker()
    worker.reject(worker.take_one())
    assert publish(world, "y", seconds=seconds) == (REPLACED, "y")
    assert publish(world, "z", seconds=seconds) == (EXISTING, "y")


@pytest.mark.parametrize("how", ["cancel", "purge"])
def test_a_dropped_job_does_not_block_its_key(world: World, how: str) -> None:
    """After a cancel or purge it can be published again."""
    publish(world, "x", seconds=3600)
    if how == "cancel":
        world.jobs.cancel("x")
    else:
        assert sum(world.store.purge("q")) == 1
    assert publish(world, "y", seconds=3600) == (CREATED, "y")


@pytest.mark.parametrize("how", ["ack", "release", "reject", "reap", "reap early"])
def test_a_job_that_is_cancelled_while_it_runs_blocks_its_key_until_it_ends(
    world: World, worker: Worker, how: str
) -> None:
    """However its run ends; the time of the key is not over."""
    publish(world, "x", seconds=3600)
    lease = worker.take_one()
    world.jobs.cancel("x")
    assert publish(world, "y", seconds=3600) == (EXISTING, "x")
    if how == "ack":
        assert worker.finish(lease)
    elif how == "release":
        worker.release(lease)
    elif how == "reject":
        worker.reject(lease)
    else:
        if how == "reap early":
            worker.finish(lease, ending=Ending.ACK_EARLY)
        world.pass_time(60)
    assert publish(world, "y", seconds=3600) == (CREATED, "y")
    assert publish(world, "z", seconds=3600) == (EXISTING, "y")


@pytest.mark.parametrize("how", ["drop", "count", "age"])
def test_a_dead_job_does_not_block_its_key_once_its_letter_is_gone(
    world: World, worker: Worker, how: str
) -> None:
    """Whether somebody drops it, there are too many, or it is too old."""
    if how == "count":
        world.configure(dead_letter_count=0, authoritative=True)
    if how == "age":
        world.configure(dead_letter_seconds=60.0, authoritative=True)
    publish(world, "x", seconds=3600)
    worker.reject(worker.take_one())
    if how == "drop":
        assert world.store.purge_dead("a", "q", "x")
    if how == "age":
        world.pass_time(120)
    assert world.dead() == []
    assert publish(world, "y", seconds=3600) == (CREATED, "y")
    assert publish(world, "z", seconds=3600) == (EXISTING, "y")


def test_a_letter_that_is_dropped_frees_no_key_of_its_id(world: World, worker: Worker) -> None:
    """The job was published again, and holds the key; or it is another job's by now."""
    publish(world, "x", seconds=60)
    worker.reject(worker.take_one())
    world.pass_time(130)
    publish(world, "x", seconds=3600)
    assert world.store.purge_dead("a", "q", "x")
    assert publish(world, "y") == (EXISTING, "x")
    worker.reject(worker.take_one())
    publish(world, "y", seconds=3600)
    assert world.store.purge_dead("a", "q", "x")
    assert publish(world, "z") == (EXISTING, "y")


def test_a_key_counts_where_capacity_does_not(world: World) -> None:
    """As for a job that was accepted while the store was away."""
    world.limit("a", capacity=0)
    assert publish(world, "x", exempt=True) == (CREATED, "x")
    assert publish(world, "y", exempt=True) == (EXISTING, "x")


def test_an_exempt_publish_of_a_queue_ignores_keys() -> None:
    """A retry is accepted: the job that it retries holds its key."""
    with FairQueue("memory://keys") as queue:
        how = {"queue": "q", "workspace": "a", "unique_key": "k"}
        found = [queue.publish(b"", exempt=exempt, **how).outcome for exempt in (False, True)]  # type: ignore[arg-type]
    assert found == [CREATED, CREATED]


def test_a_repeat_is_not_a_duplicate(world: World) -> None:
    """The same id again, after a lost reply, is reported as a repeat."""
    publish(world, "x")
    assert publish(world, "x")[0] is Outcome.REPEATED


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_refused_publish_takes_no_key(world: World, seconds: float | None) -> None:
    """In a full workspace nothing is stored."""
    world.limit(capacity=0)
    with pytest.raises(CapacityExceeded):
        publish(world, "x", seconds=seconds)
    world.limit(capacity=5)
    assert publish(world, "y", seconds=seconds) == (CREATED, "y")


def test_a_job_id_that_is_used_again_frees_its_old_key_alone(world: World, worker: Worker) -> None:
    """The key of the first job of that id is over; that of the second still counts."""
    publish(world, "x", key="old", seconds=60)
    worker.finish(worker.take_one())
    world.clock.advance(130)
    publish(world, "x", key="new", seconds=3600)
    worker.finish(worker.take_one())
    publish(world, "y", key="third")
    assert publish(world, "z", key="new") == (EXISTING, "x")
    assert publish(world, "z", key="old")[0] is CREATED


@pytest.mark.parametrize("seconds", [None, 3600.0])
def test_a_replay_does_not_run_beside_the_job_that_took_over_its_key(
    world: World, worker: Worker, seconds: float | None
) -> None:
    """It stays dead and names that job; later it comes back, and holds the key again."""
    publish(world, "x", seconds=seconds)
    worker.reject(worker.take_one())
    publish(world, "y", seconds=seconds)
    with pytest.raises(UniqueKeyHeld, match=r"'x' of workspace 'a'.* job 'y' holds") as caught:
        world.store.replay("a", "q", "x")
    assert caught.value.holder == "y"
    assert world.replay_all() == 0
    assert [letter.job.id for letter in world.dead()] == ["x"]
    worker.finish(worker.take_one())
    world.clock.advance(3600)
    assert world.store.replay("a", "q", "x")
    assert publish(world, "z") == (EXISTING, "x")
    assert world.dead() == []


def test_a_replay_that_is_held_back_holds_no_other_back(world: World, worker: Worker) -> None:
    """The rest of a page is replayed, in its order."""
    for job_id in ("x", "other"):
        publish(world, job_id, key=f"of {job_id}")
        worker.reject(worker.take_one(), "bad: a=b")
    publish(world, "y", key="of x")
    assert world.replay_all() == 1
    assert [(letter.job.id, letter.reason) for letter in world.dead()] == [("x", "bad: a=b")]


@pytest.mark.parametrize("delay_seconds", [0.0, 60.0])
def test_a_retry_holds_the_key_of_the_job_that_it_retries(
    world: World, worker: Worker, delay_seconds: float
) -> None:
    """From its publish until it ends itself, also where no other job waits behind it."""
    publish(world, "x")
    lease = worker.take_one()
    retry = Job("x again", "a", "q", "t", b"", delay_seconds=delay_seconds)
    how = Admission(exempt=True, retry_of=lease.fence)
    assert world.store.publish(retry, how).outcome is CREATED
    assert publish(world, "y") == (EXISTING, "x again")
    worker.finish(lease)
    assert publish(world, "y") == (EXISTING, "x again")
    world.clock.advance(delay_seconds)
    worker.finish(worker.take_one())
    assert publish(world, "y") == (CREATED, "y")


def test_a_retry_takes_no_key_that_is_another_jobs_by_now(world: World, worker: Worker) -> None:
    """The time of its own key is over, and the next job holds it."""
    publish(world, "x", seconds=5)
    lease = worker.take_one()
    world.clock.advance(6)
    publish(world, "y", seconds=60)
    world.store.publish(
        Job("x again", "a", "q", "t", b""), Admission(exempt=True, retry_of=lease.fence)
    )
    assert publish(world, "z", seconds=60) == (EXISTING, "y")
