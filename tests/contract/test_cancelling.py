"""Jobs that are cancelled, one by one or all of a workspace, and what purge drops."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairqueue import Cancelled, Ending, Job, Lease, Renewed
from tests.contract.world import Worker, World, ids

ENDINGS: dict[str, Callable[[World, Worker, Lease], object]] = {
    "finished": lambda _, worker, lease: worker.finish(lease, 1.0),
    "given back": lambda _, worker, lease: worker.release(lease),
    "given back for later": lambda _, worker, lease: worker.release(lease, delay_seconds=9),
    "rejected": lambda _, worker, lease: worker.reject(lease),
    "lost with its worker": lambda world, *_: world.pass_time(31),
}


def test_a_waiting_job_is_gone_at_once(world: World) -> None:
    """It is neither counted nor handed out, and those around it keep their order."""
    first, second, third = world.publish_many(3)
    assert world.store.cancel(second) is Cancelled.GONE
    assert world.row().waiting == 2
    assert ids(world.worker().take(5)) == [first, third]


def test_a_scheduled_job_is_gone_at_once(world: World) -> None:
    """Its time comes and nothing happens."""
    job = world.publish(delay_seconds=5)
    assert world.store.cancel(job) is Cancelled.GONE
    assert world.row().scheduled == 0
    world.clock.advance(10)
    assert world.worker().take() == []


def test_the_last_job_of_a_workspace_leaves_nothing(world: World) -> None:
    """Others are served as if it had never been."""
    job = world.publish("a", priority=3)
    world.publish("b", "x")
    assert world.store.cancel(job) is Cancelled.GONE
    assert ids(world.worker().take(5)) == ["x"]
    assert world.store.depth("q") == 0


def test_a_cancelled_job_is_no_new_job(world: World) -> None:
    """A late repeat of its publish does not bring it back."""
    job = world.publish()
    world.store.cancel(job)
    assert not world.again("a", job)


def test_a_running_job_is_told_with_its_renewal(world: World) -> None:
    """Each renewal names it until it ends; its slot is held as long as it runs."""
    world.limit(concurrency=1)
    job, _ = world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    assert worker.beat(lease).cancelled == frozenset()
    assert world.store.cancel(job) is Cancelled.TOLD
    for _ in range(2):
        renewed = worker.beat(lease)
        assert renewed == Renewed(frozenset(), frozenset({lease.fence}))
    assert worker.take() == []


@pytest.mark.parametrize("how", ENDINGS)
def test_cancel_wins_over_a_later_end(world: World, how: str) -> None:
    """However its run ends, the job is neither run again nor dead, and its slot is free."""
    world.publish("a", "x")
    worker = world.worker()
    lease = worker.take_one()
    world.store.cancel("x")
    ENDINGS[how](world, worker, lease)
    world.pass_time(31)
    assert worker.take() == []
    row = world.row()
    assert (row.waiting, row.scheduled, row.running, row.dead, row.lost) == (0, 0, 0, 0, 0)
    assert not world.again("a", "x")


def test_an_early_acked_job_is_told_too(world: World) -> None:
    """It was not to be run again anyway; a dead worker still counts it as lost."""
    job = world.publish()
    worker = world.worker()
    lease = worker.take_one()
    worker.finish(lease, ending=Ending.ACK_EARLY)
    assert world.store.cancel(job) is Cancelled.TOLD
    assert worker.beat(lease).cancelled == {lease.fence}
    world.pass_time(31)
    assert world.row().lost == 1


def test_a_finished_job_stays_finished(world: World) -> None:
    """Cancelled after its end, dead, or never published: there is no such job."""
    first, second = world.publish_many(2)
    worker = world.worker()
    worker.finish(worker.take_one())
    worker.reject(worker.take_one())
    assert [world.store.cancel(job) for job in (first, second, "x")] == [Cancelled.UNKNOWN] * 3
    assert world.row().dead == 1


@pytest.mark.parametrize("delay_seconds", [0.0, 5.0])
def test_a_job_that_waits_is_withdrawn(world: World, delay_seconds: float) -> None:
    """It comes back whole, and as with cancel nothing of it is left: a second time is none."""
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

    found = world.store.withdraw(job, "q")

    assert found == Job("x 1", "a: b", "q", "t: 1", b"\x00\n x", 3)
    assert world.store.withdraw(job, "q") is None
    assert not world.again("a: b", job)
    world.clock.advance(10)
    assert ids(world.worker().take(5)) == [after]


def test_what_runs_is_not_withdrawn(world: World) -> None:
    """Its worker hears nothing of it, and it is given back as always; so is one elsewhere."""
    job = world.publish()
    worker = world.worker()
    lease = worker.take_one()
    assert [world.store.withdraw(job, queue) for queue in ("q", "q2")] == [None, None]
    assert worker.beat(lease).cancelled == frozenset()
    worker.release(lease)
    assert ids(worker.take()) == [job]
    assert world.store.withdraw("no such job", "q") is None


def test_a_job_is_found_by_its_queue(world: World) -> None:
    """With a queue only that one is looked at."""
    job = world.publish(queue="other: {q}")
    assert world.store.cancel(job, "q") is Cancelled.UNKNOWN
    assert world.store.cancel(job, "other: {q}") is Cancelled.GONE


def test_everything_of_one_workspace(world: World) -> None:
    """Waiting, scheduled and running ones, on every queue; other workspaces keep theirs."""
    for workspace in ("a", "b"):
        world.publish_many(3, workspace)
        world.publish(workspace, queue="q2", priority=7)
        world.publish(workspace, delay_seconds=60)
    worker = world.worker()
    leases = worker.take(2)
    assert {lease.job.workspace for lease in leases} == {"a", "b"}
    assert sum(world.store.cancel_running("a")) == 1
    assert sum(world.store.cancel_running("a")) == 0
    assert sum(world.store.purge(None, "a")) == 4
    row, other = world.row("a"), world.row("b")
    assert (row.waiting, row.scheduled, row.running) == (0, 0, 1)
    assert (other.waiting, other.scheduled, other.running) == (3, 1, 1)
    told = worker.beat(*leases).cancelled
    assert [lease.job.workspace for lease in leases if lease.fence in told] == ["a"]


def test_purge_drops_what_waits(world: World) -> None:
    """Of a queue, of a workspace on a queue, or of all; what runs goes on."""
    for workspace in ("a", "b"):
        for queue in ("q", "q2"):
            world.publish_many(2, workspace, queue=queue)
    worker = world.worker()
    lease = worker.take_one("q")
    assert sum(world.store.purge("q", "b" if lease.job.workspace == "a" else "a")) == 2
    assert sum(world.store.purge("q")) == 1
    assert sum(world.store.purge()) == 4
    assert sum(world.store.purge()) == 0
    assert worker.finish(lease)


def test_many_jobs_go_in_bounded_steps(world: World) -> None:
    """No step drops more than a bounded number, and all are gone at the end."""
    for n in range(3):
        world.publish_many(700, f"w{n}")
    world.publish_many(30, "w0", queue="q2")
    for n in range(40):
        world.publish("w1", delay_seconds=n + 1.0)
    steps = list(world.store.purge())
    assert sum(steps) == 2170
    assert world.store.snapshot().queues == {"q": 0, "q2": 0}
    assert world.worker().take(5, "q", "q2") == []


def test_jobs_are_found_by_their_message(world: World) -> None:
    """Waiting, scheduled and running ones, by a text in the payload and in nothing else."""
    world.publish("needle", "needle", payload=b"hay\nhay")
    world.publish("a", "x: {1}", payload=b'{"id": "needle"}\x00\n')
    world.publish("a", "later", payload=b"\n--needle", delay_seconds=5)
    for _ in range(300):
        world.publish("b", payload=b"hay")
    world.worker().take(2)
    assert {job for some in world.store.find("q", b"needle") for job in some} == {"x: {1}", "later"}
    assert [job for some in world.store.find("nowhere", b"needle") for job in some] == []


def test_jobs_are_found_by_one_of_several_words(world: World) -> None:
    """The word stands behind the text's first place and before a quote; in one look at each job."""
    for job, payload in [
        ("one", b'{"no": "b", "id": "a-1", "also": "b"}'),
        ("other", b'{"id": "b-2"}'),
        ("longer", b'{"id": "b-22"}'),
        ("second", b'{"id": "c", "id": "a-1"}'),
        ("none", b'"a-1"'),
        ("cut", b'"id": "a-1'),
    ]:
        world.publish(job_id=job, payload=payload)

    found = {job for some in world.store.find("q", b'"id": "', [b"a-1", b"b-2"]) for job in some}

    assert found == {"one", "other", "cut"}
