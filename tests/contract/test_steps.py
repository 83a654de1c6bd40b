"""The finished steps of a task: kept for its later runs, and written by its newest one only."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fairqueue import JobContext, Lease, LeaseLost, step
from fairqueue.adapters import end_steps, new_job_id, run_context
from fairqueue.audit import audit
from tests.contract.world import Worker, World, sound

HEAD = b"1700000000 q steps 1 j\n"


@contextmanager
def run_of(world: World, lease: Lease, **how: Any) -> Iterator[JobContext]:
    """The run of a leased job."""
    job = lease.job
    context = JobContext(
        *(job.id, job.workspace, lease.fence, lease.deliveries, world.store.store_id),
        store=lambda: world.store,
        task=job.task,
        **{"gives_up": lambda: True, **how},
    )
    with run_context(context):
        yield context


def steps(world: World, task_id: str, workspace: str = "a") -> dict[str, str]:
    """What is kept of a task."""
    return world.store.steps(workspace, task_id)


def finish(worker: Worker, lease: Lease, run: JobContext) -> None:
    """A run has ended well."""
    end_steps(run, succeeded=True)
    assert worker.finish(lease)


def must_not_run() -> None:
    """A step that has finished."""
    raise AssertionError("a finished step ran again")


def test_a_finished_step_does_not_run_again(world: World) -> None:
    """After a redelivery its value comes from the store; what had not finished runs."""
    job, worker = world.publish(task="t"), world.worker()
    lease = worker.take_one()
    with run_of(world, lease):
        assert step.run("one", lambda n: {"n": n, 1: (2,)}, 7) == {"n": 7, "1": [2]}
        with pytest.raises(ValueError, match="away"):
            step.run("two", _raises, "away")
    world.pass_time(40)
    lease = worker.take_one()
    with run_of(world, lease) as run:
        assert step.run("one", must_not_run) == {"n": 7, "1": [2]}
        assert step.run("two", lambda: None) is None
    assert set(steps(world, job)) == {"one", "two"}
    assert run.steps.counts == {"kept": 1, "run": 1}
    sound(world)


def _raises(text: str) -> None:
    raise ValueError(text)


def test_a_task_without_steps_has_no_record(world: World) -> None:
    """It is asked for nothing at the end, either."""
    world.publish()
    with run_of(world, world.worker().take_one()) as run:
        assert end_steps(run, succeeded=True) == {}
    sound(world)


def test_a_retry_has_the_steps_of_its_task(world: World, worker: Worker) -> None:
    """It is another job, with the id of the same message."""
    world.publish(job_id="m")
    first = worker.take_one()
    with run_of(world, first):
        step.run("one", lambda: 1)
    world.publish(job_id=f"{'x' * 16}~m")
    worker.finish(first)
    again = worker.take_one()
    with run_of(world, again):
        assert step.run("one", must_not_run) == 1
    with run_of(world, again, message_id="other"):
        assert step.run("one", lambda: 2) == 2


def test_a_lost_lease_writes_nothing(world: World) -> None:
    """A run that slept beyond its lease gets LeaseLost; the value of the new owner stands."""
    job = world.publish()
    stale = world.worker().take_one()
    with run_of(world, stale) as run:
        step.run("one", lambda: "stale")

        def slow() -> str:
            world.pass_time(40)
            lease = world.worker("new").take_one()
            with run_of(world, lease):
                assert step.run("one", must_not_run) == "stale"
                assert step.run("two", lambda: "new") == "new"
            return "stale"

        with pytest.raises(LeaseLost):
            step.run("two", slow)
        assert run.steps.counts == Counter(run=1, lost=1)
        end_steps(run, succeeded=True)
    assert steps(world, job) == {"one": '"stale"', "two": '"new"'}
    sound(world)


def test_an_older_run_of_the_same_task_is_refused(world: World) -> None:
    """A retry may start before the lease of its first run has ended: the higher fence counts."""
    for job in ("m", f"{'x' * 16}~m"):
        world.publish(job_id=job)
    first, second = world.worker().take(2)
    with run_of(world, second):
        assert step.run("one", lambda: 2) == 2
    with run_of(world, first):
        assert step.run("one", must_not_run) == 2
        with pytest.raises(LeaseLost):
            step.run("two", lambda: 1)


def test_the_first_value_counts(world: World) -> None:
    """Two runs that compute a step at once return the same value: the one that was kept."""
    for job in ("m", f"{'x' * 16}~m"):
        world.publish(job_id=job)
    first, second = world.worker().take(2)

    def slow() -> int:
        with run_of(world, first):
            assert step.run("one", lambda: 1) == 1
        return 2

    with run_of(world, second):
        assert step.run("one", slow) == 1


def test_a_lost_reply_changes_nothing(world: World) -> None:
    """The same write again has the same reply."""
    job = world.publish()
    lease = world.worker().take_one()
    of = lease.fence, "a", job, "one"
    for _ in range(2):
        assert world.store.note_step(*of, "one 0.1 7", early=False) == "one 0.1 7"
    assert world.store.note_step(*of, "one 0.1 8", early=False) == "one 0.1 7"


def test_a_task_that_was_acked_early_needs_no_lease(world: World) -> None:
    """Its steps serve its retries."""
    world.publish()
    lease = world.worker().take_one()
    world.pass_time(40)
    with run_of(world, lease, redeliverable=False):
        assert step.run("one", lambda: 1) == 1
    assert steps(world, lease.job.id) == {"one": "1"}
    sound(world)


def test_steps_go_once_the_task_has_ended_well(world: World, worker: Worker) -> None:
    """A worker that dies between the end and its ack has them still; then they go."""
    job = world.publish()
    lease = worker.take_one()
    with run_of(world, lease) as run:
        step.run("one", lambda: 1)
    end_steps(run, succeeded=True)
    world.pass_time(40)  # it died before its ack
    lease = worker.take_one()
    with run_of(world, lease) as run:
        assert step.run("one", must_not_run) == 1
    finish(worker, lease, run)
    world.publish()
    lease = worker.take_one()
    with run_of(world, lease) as run:
        step.run("other", lambda: 1)
    finish(worker, lease, run)
    assert steps(world, job) == {}
    world.pass_time(1200)
    sound(world)
    engine = world.store.engine
    assert not engine.command("HLEN", f"{engine.keys.prefix}dead_letters:!!a")


def test_another_task_of_the_same_id_begins_without_steps(world: World, worker: Worker) -> None:
    """A report of each day has one id, say: the next one runs, however soon it comes."""
    for n, job in enumerate(("daily", f"{new_job_id()}~daily")):
        world.publish(job_id=job)
        lease = worker.take_one()
        with run_of(world, lease) as run:
            assert step.run("one", lambda: n) == n  # noqa: B023
            assert world.store.why(workspace="a", job_id=job, queue=None).job.steps  # type: ignore[union-attr]
        finish(worker, lease, run)
    assert steps(world, "daily") == {}


def test_steps_stay_for_a_job_that_is_there_after_all(world: World) -> None:
    """Where the worker died before its ack, and the job waits for long."""
    job, worker = world.publish(), world.worker()
    lease = worker.take_one()
    with run_of(world, lease) as run:
        step.run("one", lambda: 1)
    end_steps(run, succeeded=True)
    for _ in range(10):
        world.clock.advance(3600)
        world.reap()
    assert steps(world, job) == {"one": "1"}


def test_steps_of_a_task_that_failed_expire(world: World) -> None:
    """After 30 days, by themselves, also where no dead letters are kept."""
    world.configure(dead_letter_seconds=60, dead_letter_count=0)
    job, worker = world.publish(), world.worker()
    lease = worker.take_one()
    with run_of(world, lease):
        step.run("one", lambda: 1)
    worker.finish(lease)
    for days in (1, 28, 2):
        assert steps(world, job) == {"one": "1"}
        world.clock.advance(days * 86_400)
        world.reap()
    assert steps(world, job) == {}
    sound(world)


def test_a_replay_goes_on_where_the_task_failed(world: World) -> None:
    """``from_start`` forgets its steps."""
    job, worker = world.publish(), world.worker()

    def die() -> list[int]:
        lease = worker.take_one()
        with run_of(world, lease):
            found = [step.run("one", lambda: lease.fence)]
        worker.reject(lease)
        return found

    first = die()
    assert world.store.replay("a", "q", job)
    assert die() == first
    assert world.store.replay("a", "q", job, from_start=True)
    assert die() != first
    assert world.store.purge_dead("a", "q", job)
    assert steps(world, job) == {}
    sound(world)


@pytest.mark.parametrize(
    "record", [b"junk", b"", HEAD + b"a t 0 0 0 1\none 0.1 {", HEAD + b"a t\none\n"]
)
def test_a_damaged_record_is_set_aside(
    world: World, record: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Doctor names it, and the steps run again."""
    job, worker = world.publish(), world.worker()
    lease = worker.take_one()
    with run_of(world, lease):
        step.run("one", lambda: 1)
    engine = world.store.engine
    engine.command("HSET", f"{engine.keys.prefix}dead_letters:!!a", job, record)
    if record in {b"", b"junk"}:
        (one,) = audit(engine, now=world.clock())
        assert one.text == f"the finished steps of task '{job}' cannot be read"
    with run_of(world, lease), caplog.at_level(logging.WARNING, "fairqueue.step"):
        assert step.run("one", lambda: 2) == 2
        assert step.run("two", lambda: 3) == 3
    assert steps(world, job) == {"one": "2", "two": "3"}
    if record:
        assert "run again" in caplog.text
        found = [one.text for one in audit(engine, now=world.clock())]
        assert [text.partition(" was")[0] for text in found] == [f"steps a/{job}"]


def test_a_repair_sets_a_damaged_record_aside(world: World) -> None:
    """Before any run has found it."""
    job, engine = world.publish(), world.store.engine
    with run_of(world, world.worker().take_one()):
        step.run("one", lambda: 1)
    engine.command("HSET", f"{engine.keys.prefix}dead_letters:!!a", job, b"junk")
    assert world.store.rebuild("letter", ["!!a", job]) == "written"
    (found,) = audit(engine, now=world.clock())
    assert "was set aside" in found.text
    assert steps(world, job) == {}


def test_steps_of_other_workspaces_are_others(world: World, worker: Worker) -> None:
    """An equal task id there is another task."""
    for workspace in "ab":
        world.publish(workspace, job_id="m")
    for lease in worker.take(2):
        with run_of(world, lease):
            assert step.run("one", lambda: lease.job.workspace) == lease.job.workspace  # noqa: B023


def test_odd_names_and_values(world: World) -> None:
    """Names are any printable text; values any JSON, also of many lines."""
    job, worker = world.publish(), world.worker()
    lease = worker.take_one()
    values: dict[str, Any] = {
        "row 7": "a\nb c\r\n",
        "é/%20 ": [None, 1.5, {"x": []}],
        "one": "",
        "one ": "\ud800",
    }
    for _ in range(2):
        with run_of(world, lease):
            for name, value in values.items():
                assert step.run(name, lambda value=value: value) == value
    assert set(steps(world, job)) == set(values)
