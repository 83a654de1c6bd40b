"""Jobs are cancelled one by one or for a whole workspace; purge drops waiting jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import Cancelled, DeadLetter, Job, Lease
from fairqueue.adapters import Ending, Renewed
from fairqueue.audit import Keyspace
from fairqueue.errors import ConfigurationError
from fairqueue.operate.jobs import signal_running
from tests.contract.world import Worker, World, ids

HOWS: dict[str, Callable[[World, str], object]] = {
    "cancelled": lambda world, job: world.jobs.cancel(job),
    "withdrawn": lambda world, job: world.jobs.withdraw(job, queue="q"),
    "cancelled with its workspace": lambda world, _: sum(
        world.store.purge(None, "a: b", cancelled=True)
    ),
}

ENDINGS: dict[str, Callable[[World, Worker, Lease], object]] = {
    "finished": lambda _, worker, lease: worker.finish(lease, 1.0),
    "given back": lambda _, worker, lease: worker.release(lease),
    "given back for later": lambda _, worker, lease: worker.release(lease, delay_seconds=9),
    "rejected": lambda _, worker, lease: worker.reject(lease),
    "lost with its worker": lambda world, *_: world.pass_time(31),
}


def test_a_running_job_learns_of_its_cancellation_with_a_renewal(world: World) -> None:
    """Each renewal reports it until the job ends; the job holds its slot as long as it runs."""
    world.limit(concurrency=1)
    job, _ = world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    assert worker.beat(lease).cancelled == frozenset()
    assert world.jobs.cancel(job) is Cancelled.SIGNALLED
    for _ in range(2):
        renewed = worker.beat(lease)
        assert renewed == Renewed(frozenset(), frozenset({lease.fence}))
    assert worker.take() == []


@pytest.mark.parametrize("how", ENDINGS)
def test_a_cancelled_job_is_not_run_again(world: World, worker: Worker, how: str) -> None:
    """However its run ends, it is neither run again nor a dead letter, and its slot is freed."""
    world.publish("a", "x")
    lease = worker.take_one()
    world.jobs.cancel("x")
    ENDINGS[how](world, worker, lease)
    world.pass_time(31)
    assert worker.take() == []
    row = world.row()
    assert (row.waiting, row.scheduled, row.running, row.dead, row.lost) == (0, 0, 0, 0, 0)
    assert not world.again("a", "x")


def test_an_early_acked_job_learns_of_its_cancellation(world: World, worker: Worker) -> None:
    """A renewal reports it; if its worker dies, it still counts as lost."""
    job = world.publish()
    lease = worker.take_one()
    worker.finish(lease, ending=Ending.ACK_EARLY)
    assert world.jobs.cancel(job) is Cancelled.SIGNALLED
    assert worker.beat(lease).cancelled == {lease.fence}
    world.pass_time(31)
    assert world.row().lost == 1


def test_an_ended_job_cannot_be_cancelled(world: World, worker: Worker) -> None:
    """A finished, dead or unknown job is not found."""
    first, second = world.publish_many(2)
    worker.finish(worker.take_one())
    worker.reject(worker.take_one())
    assert [world.jobs.cancel(job) for job in (first, second, "x")] == [Cancelled.NOT_FOUND] * 3
    assert world.row().dead == 1


@pytest.mark.parametrize("delay_seconds", [0.0, 5.0])
def test_a_waiting_job_is_withdrawn(world: World, delay_seconds: float) -> None:
    """It is returned whole and nothing of it is left; a second withdrawal finds nothing."""
    job = world.publish(
        "a: b",
        "x 1",
        task="t: 1",
        payload=b"\x00\n x",
        priority=3,
        delay_seconds=delay_seconds,
        expires_seconds=60.0,
    )
    after = world.publish("a: b")

    found = world.jobs.withdraw(job, queue="q")

    assert found == Job("x 1", "a: b", "q", "t: 1", b"\x00\n x", 3)
    assert world.jobs.withdraw(job, queue="q") is None
    assert not world.again("a: b", job)
    world.clock.advance(10)
    assert ids(world.worker().take(5)) == [after]


def test_a_running_job_is_not_withdrawn(world: World, worker: Worker) -> None:
    """Its worker is not notified and can give it back; the queue must be right, too."""
    job = world.publish()
    lease = worker.take_one()
    assert [world.jobs.withdraw(job, queue=queue) for queue in ("q", "q2")] == [None, None]
    assert worker.beat(lease).cancelled == frozenset()
    worker.release(lease)
    assert ids(worker.take()) == [job]
    assert world.jobs.withdraw("no such job", queue="q") is None


def test_cancel_can_be_limited_to_a_queue(world: World) -> None:
    """With a queue, only that queue is searched."""
    job = world.publish(queue="other: {q}")
    assert world.jobs.cancel(job, queue="q") is Cancelled.NOT_FOUND
    assert world.jobs.cancel(job, queue="other: {q}") is Cancelled.REMOVED


def test_all_jobs_of_a_workspace_are_cancelled(world: World, worker: Worker) -> None:
    """Waiting, scheduled and running jobs on every queue are; other workspaces keep theirs."""
    for workspace in ("a", "b"):
        world.publish_many(3, workspace)
        world.publish(workspace, queue="q2", priority=7)
        world.publish(workspace, delay_seconds=60)
    leases = worker.take(2)
    assert {lease.job.workspace for lease in leases} == {"a", "b"}
    assert [*signal_running(world.store, {"workspace": "a"})] == [Cancelled.SIGNALLED]
    assert [*signal_running(world.store, {"workspace": "a"})] == []
    assert sum(world.store.purge(None, "a")) == 4
    row, other = world.row("a"), world.row("b")
    assert (row.waiting, row.scheduled, row.running) == (0, 0, 1)
    assert (other.waiting, other.scheduled, other.running) == (3, 1, 1)
    told = worker.beat(*leases).cancelled
    assert [lease.job.workspace for lease in leases if lease.fence in told] == ["a"]


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ({"task": "t"}, {"a": 2, "b": 1}),
        ({"queue": "q2"}, {"a": 1, "b": 2}),
        ({"workspace": "a", "task": "t"}, {"a": 2, "b": 2}),
        ({"workspace": "a", "queue": "q2", "task": "u"}, {"a": 2, "b": 2}),
    ],
)
def test_all_jobs_that_match_are_cancelled(
    world: World, worker: Worker, names: dict[str, Any], left: dict[str, int]
) -> None:
    """By workspace, queue and task; one that runs is signalled, and the others go on."""
    for workspace, queue, task in MIXED:
        world.publish(workspace, queue=queue, task=task)
    lease = worker.take_one("q2")
    assert (lease.job.workspace, lease.job.task) == ("a", "u")
    matches = all(getattr(lease.job, kind) == name for kind, name in names.items())
    done = world.jobs.cancel_matching(**names)
    assert done.signalled == int(matches)
    assert {
        name: world.row(name).waiting + world.row(name).running - int(matches and name == "a")
        for name in left
    } == left
    assert bool(worker.beat(lease).cancelled) is matches
    with pytest.raises(ConfigurationError, match="name a workspace, a queue or a task"):
        world.jobs.cancel_matching()


MIXED = [("a", "q2", "u"), ("a", "q2", "t"), ("a", "q", "v"), ("b", "q", "t"), ("b", "q", "u")]


def test_purge_drops_waiting_jobs(world: World, worker: Worker) -> None:
    """It can be limited to a queue and a workspace; running jobs go on."""
    for workspace in ("a", "b"):
        for queue in ("q", "q2"):
            world.publish_many(2, workspace, queue=queue)
    lease = worker.take_one("q")
    assert sum(world.store.purge("q", "b" if lease.job.workspace == "a" else "a")) == 2
    assert sum(world.store.purge("q")) == 1
    assert sum(world.store.purge()) == 4
    assert sum(world.store.purge()) == 0
    assert worker.finish(lease)


def test_a_purge_works_in_bounded_steps(world: World) -> None:
    """No step drops more than a bounded number, and in the end all are gone."""
    for n in range(3):
        world.publish_many(700, f"w{n}")
    world.publish_many(30, "w0", queue="q2")
    for n in range(40):
        world.publish("w1", delay_seconds=n + 1.0)
    steps = list(world.store.purge())
    assert sum(steps) == 2170
    assert world.stats().queues == {"q": 0, "q2": 0}
    assert world.worker().take(5, "q", "q2") == []


def notices(world: World, *queues: str) -> list[DeadLetter]:
    """Take what a worker of these queues would report."""
    return world.store.take_failure_notices(queues or ("q",), n=9, hold_seconds=30)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("delay_seconds", [0.0, 5.0])
def test_a_cancelled_job_leaves_a_notice(world: World, how: str, delay_seconds: float) -> None:
    """In the same step, so that no lost reply leaves its result pending; it is no dead letter."""
    world.publish("a: b", "x", payload=b"\x00\n x", priority=3, delay_seconds=delay_seconds)
    for _ in range(2):  # the reply was lost, and the call is repeated
        HOWS[how](world, "x")
        assert world.store.depth("q") == 0

    assert notices(world, "q2") == []
    (notice,) = notices(world)
    assert notice.job == Job("x", "a: b", "q", "t", b"\x00\n x", 3)
    assert (notice.reason, notice.deliveries, notice.history) == ("cancelled", 0, ())
    assert world.dead("a: b") == []
    assert world.row("a: b").dead == 0
    assert notices(world) == []
    world.pass_time(31)
    assert notices(world) == [notice]  # the worker that took it died
    assert world.store.drop_failure_notices([notice]) == 1
    assert world.store.drop_failure_notices([notice]) == 0
    world.pass_time(31)
    assert notices(world) == []
    assert world.worker().take() == []
    space = Keyspace(world.store.engine)
    left = [
        kind for kind in ("dead_letters", "dead_workspaces", "unreported") if list(space.all(kind))
    ]
    assert left == []


@pytest.mark.parametrize(
    ("how", "left"),
    [("lost with its worker", 1), ("given back", 1), ("finished", 0), ("rejected", 0)],
)
def test_a_cancelled_job_whose_worker_did_not_end_it_leaves_a_notice(
    world: World, worker: Worker, how: str, left: int
) -> None:
    """Its worker died, or stopped before the job began: another one reports it."""
    world.publish("a", "x")
    lease = worker.take_one()
    world.jobs.cancel("x")
    assert notices(world) == []
    ENDINGS[how](world, worker, lease)
    found = [(notice.job.id, notice.reason) for notice in notices(world)]
    assert found == [("x", "cancelled")] * left


def test_a_purge_leaves_no_notice(world: World) -> None:
    """No worker reports what is dropped with its queue."""
    world.publish_many(3)
    assert sum(world.store.purge("q")) == 3
    assert notices(world) == []


def test_notices_of_cancelled_jobs_are_as_old_as_dead_letters_at_most(world: World) -> None:
    """However many there are; dead letters of the workspace are not touched."""
    world.configure(dead_letter_seconds=100.0, dead_letter_count=3)
    world.publish("a", "dead")
    worker = world.worker()
    worker.reject(worker.take_one())
    for job in world.publish_many(5):
        world.clock.advance(1)
        world.jobs.cancel(job)
    assert [notice.job.id for notice in notices(world)] == [f"j{n}" for n in range(5)]
    assert [letter.job.id for letter in world.dead()] == ["dead"]
    world.pass_time(120)
    assert notices(world) == []
    assert world.row().dead == 0


def test_a_replayed_dead_letter_and_a_cancelled_job_of_its_id_are_two(world: World) -> None:
    """A notice of one is not that of the other."""
    world.publish("a", "x", expires_seconds=1)
    world.clock.advance(2)
    world.reap()
    assert [notice.reason for notice in notices(world)] == ["expired"]
    assert world.replay_all() == 1
    world.jobs.cancel("x")
    (notice,) = notices(world)
    assert notice.reason == "cancelled"
