"""A task that waits for a child is suspended; the end of the child brings it back to the head."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import ChildLost, JobState, JobStatus, Lease, StoreUnavailable, step
from fairqueue._publish import must_publish
from fairqueue.adapters import POLL_SECONDS, Child, Ended, end_steps, wake_parent
from fairqueue.errors import Suspended
from fairqueue.explained import explain_steps
from tests.contract.test_steps import run_of
from tests.contract.world import Worker, World, sound
from tests.operators import operators_of


class Backend:
    """Sends jobs, and has the results of those that ended: what an adapter does."""

    def __init__(self, world: World) -> None:
        self.world, self.results_of, self.sent = world, {}, []  # type: ignore[var-annotated]

    def call(self, task: Any, _args: Any, _kwargs: Any) -> tuple[Any, str, str]:
        return task, "q", task

    def send(self, call: Any, child: Child, parent: list[str]) -> Child:
        self.world.publish(child.workspace, child.id, task=call, exempt=True)
        self.sent.append(child.id)
        assert parent[0] == child.workspace
        return child

    def ended(self, child: Child) -> Ended | None:
        return self.results_of.get(child.id)


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results here are stored before their jobs end."""
    monkeypatch.setattr(step, "SETTLES_SECONDS", 0.0)


def release(worker: Worker, lease: Lease, task_id: str) -> bool:
    """What an adapter does with a suspended run."""
    return worker.release(lease, delay_seconds=POLL_SECONDS, seconds=1.0, waits=task_id)


def status(world: World, job_id: str) -> JobStatus:
    """What is known of a job."""
    found = world.store.why(workspace="a", job_id=job_id, queue=None).job
    assert found is not None
    return found


def suspend(world: World, backend: Backend, lease: Lease, *names: str) -> None:
    """Run a parent of these children until it is suspended."""
    with run_of(world, lease, children=lambda: backend) as run:
        for name in names:
            step.send(name, "child")
        with pytest.raises(Suspended):
            [step.result(name) for name in names]
        end_steps(run, succeeded=False)


def lose_child(world: World, backend: Backend, lease: Lease) -> None:
    """Run a parent that cannot know how its child has ended."""
    with (
        run_of(world, lease, children=lambda: backend),
        pytest.raises(ChildLost, match="has no result"),
    ):
        step.invoke("one", "child")


def test_the_end_of_a_child_brings_its_parent_back_to_the_head(world: World) -> None:
    """It holds nothing meanwhile, no delivery is counted, and each child is sent once."""
    world.limit("a", concurrency=1)
    worker, backend = world.worker(), Backend(world)
    parent = world.publish("a", task="t")
    lease = worker.take_one()
    later = world.publish("a", task="t")
    suspend(world, backend, lease, "one", "two")
    assert release(worker, lease, parent)
    sound(world)
    found = status(world, parent)
    assert found.state is JobState.SUSPENDED
    assert [child.name for child in found.children] == ["one", "two"]
    (line,) = explain_steps(found, {})
    assert line.startswith(f"suspended: waits for its children one (task child, {backend.sent[0]})")
    first = worker.take_one()
    assert first.job.id == later
    assert worker.finish(first)
    child = worker.take_one()
    assert child.job.id == backend.sent[0]
    world.clock.advance(3)
    why = operators_of(world.store).views.why(parent, workspace="a")
    (line,) = explain_steps(why.job, {worker.owner: "w1@host"})
    assert f"{child.job.id}, runs for 3.0 s on w1@host)" in line
    backend.results_of[child.job.id] = Ended([1, (2,)])
    wake_parent(world.store, ["a", parent])
    sound(world)
    assert worker.finish(child)
    again = worker.take_one()
    assert (again.job.id, again.deliveries) == (parent, 1)
    suspend(world, backend, again, "one", "two")
    assert release(worker, again, parent)
    (left,) = status(world, parent).children
    assert (left.name, left.id) == ("two", backend.sent[1])
    child = worker.take_one()
    assert child.job.id == backend.sent[1]
    assert len(backend.sent) == 2
    backend.results_of = {child.job.id: Ended(7)}  # the first result is a step by now
    wake_parent(world.store, ["a", parent])
    assert worker.finish(child)
    again = worker.take_one()
    with run_of(world, again, children=lambda: backend) as run:
        assert step.send("one", "child") == backend.sent[0]
        assert step.result("one") == [1, [2]]
        assert step.invoke("two", "child") == 7
        end_steps(run, succeeded=True)
    assert worker.finish(again)
    sound(world)


def test_a_child_that_ends_before_its_parent_is_suspended(world: World) -> None:
    """Then the parent is given back without a delay."""
    worker, backend = world.worker(), Backend(world)
    parent = world.publish("a", task="t")
    lease = worker.take_one()
    suspend(world, backend, lease, "one")
    child = worker.take_one()
    wake_parent(world.store, ["a", parent])
    assert worker.finish(child)
    sound(world)
    assert release(worker, lease, parent)
    assert worker.take_one().job.id == parent


def test_a_child_that_ends_after_its_parent_keeps_nothing_of_it(world: World) -> None:
    """The parent has ended well, and is not acked yet."""
    worker, backend = world.worker(), Backend(world)
    parent = world.publish("a", task="t")
    lease = worker.take_one()
    with run_of(world, lease, children=lambda: backend) as run:
        step.send("one", "child")
        end_steps(run, succeeded=True)
    wake_parent(world.store, ["a", parent])
    assert worker.finish(lease)
    assert world.store.steps("a", parent) == {}
    world.pass_time(1)
    sound(world)
    engine = world.store.engine
    assert not engine.command("HLEN", f"{engine.keys.prefix}dead_letters:!!a")


def test_a_parent_that_is_not_woken_looks_by_itself(world: World) -> None:
    """It does not expire; and a word to one that is gone, or never waited, changes nothing."""
    worker, backend = world.worker(), Backend(world)
    parent = world.publish("a", task="t", expires_seconds=5)
    lease = worker.take_one()
    suspend(world, backend, lease, "one")
    assert release(worker, lease, parent)
    wake_parent(world.store, ["a", "gone"])
    wake_parent(world.store, "damaged")
    assert worker.finish(worker.take_one())
    assert not worker.claim().leases
    world.pass_time(POLL_SECONDS + 1)
    assert worker.take_one().job.id == parent
    sound(world)


def test_a_failed_child_is_sent_again_by_the_next_attempt(world: World) -> None:
    """A run that is suspended is no attempt."""
    worker, backend = world.worker(), Backend(world)
    world.publish("a", task="t")
    lease = worker.take_one()
    with run_of(world, lease, children=lambda: backend) as run:
        first = step.send("one", "child")
        backend.results_of[first] = Ended(error=ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            step.result("one")
        step.send("two", "child")
        with pytest.raises(Suspended):
            step.result("two")
        end_steps(run, succeeded=False)
    with run_of(world, lease, children=lambda: backend) as run:
        with pytest.raises(ValueError, match="no"):
            step.invoke("one", "child")
        end_steps(run, succeeded=False)
    with run_of(world, lease, children=lambda: backend):
        assert step.send("one", "child") not in {first, backend.sent[1]}


def test_a_result_that_is_gone(world: World) -> None:
    """The child has ended, and its parent cannot know how."""
    worker, backend = world.worker(), Backend(world)
    world.publish("a", task="t")
    lease = worker.take_one()
    suspend(world, backend, lease, "one")
    assert worker.finish(worker.take_one())
    lose_child(world, backend, lease)


def test_a_parent_that_looks_during_an_outage_waits_for_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every step does: it does not fail."""
    worker, backend, why = world.worker(), Backend(world), world.store.why
    world.publish("a", task="t")
    lease = worker.take_one()
    tries = []

    def away(**named: Any) -> Any:
        tries.append(named)
        if len(tries) < 3:
            raise StoreUnavailable("away")
        return why(**named)

    monkeypatch.setattr(must_publish, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(world.store, "why", away)
    run = run_of(world, lease, children=lambda: backend, gives_up=lambda: False)
    with run, pytest.raises(Suspended):
        step.invoke("one", "child")
    assert len(tries) == 3


def test_a_child_that_kills_its_workers_is_waited_for_until_that_is_told(world: World) -> None:
    """A worker stores its error some seconds after its death, and wakes the parent."""
    worker, backend = world.worker(), Backend(world)
    world.publish("a", task="t")
    lease = worker.take_one()
    suspend(world, backend, lease, "one")
    worker.reject(worker.take_one())
    suspend(world, backend, lease, "one")
    world.pass_time(POLL_SECONDS + 1)
    lose_child(world, backend, lease)


def test_what_was_sent_and_not_noted_is_not_sent_again(world: World) -> None:
    """By the id of its job while it lives, and by its result after that."""
    worker, backend = world.worker(), Backend(world)
    world.publish("a", task="t")
    lease = worker.take_one()
    with run_of(world, lease, children=lambda: backend):
        child = step.send("one", "child")
    world.store.note_step(lease.fence, "a", lease.job.id, "", "unread", early=False)
    with run_of(world, lease, children=lambda: backend):
        assert step.send("one", "child") == child
    assert len(worker.claim(n=9).leases) == 1
    world.store.note_step(lease.fence, "a", lease.job.id, "", "unread", early=False)
    backend.results_of[child], backend.sent = Ended(3), []
    with run_of(world, lease, children=lambda: backend):
        assert step.invoke("one", "child") == 3
    assert backend.sent == []
