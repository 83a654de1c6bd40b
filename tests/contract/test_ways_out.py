"""Every key and field has a way out: what is not used any more goes, a page with each call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from fairqueue import Job, Limits, Pause
from fairqueue.adapters import Admission, Ending, Finish
from fairqueue.audit.checks import take_look
from tests.contract.world import Worker, World, sound

DAY = 86400.0
STEPS, CALLS = 6, 20
MOST_IN_ONE_CALL = 128


def traces(world: World, text: str) -> set[str]:
    """The kinds of keys that hold this text, without kept replies and figures."""
    engine, found = world.store.engine, set()
    for key, value, _ in engine.dump():
        kind = key.decode().removeprefix(engine.keys.prefix).partition(":")[0]
        if text.encode() in key or text in repr(value):
            found.add(kind)
    return found - {"activity"}


def idle(world: World, worker: Worker, days: float, *queues: str) -> None:
    """Let days pass in a few steps, in each of which a worker claims in vain several times."""
    for _step in range(STEPS):
        world.clock.advance(days * DAY / STEPS)
        for _ in range(CALLS):
            world.clock.advance(1)
            assert worker.take(1, *queues) == []


def reap(world: World, worker: Worker, days: float, *_queues: str) -> None:
    """The same while no claim is in vain, as beside a backlog: other workers reap."""
    for _step in range(STEPS):
        world.clock.advance(days * DAY / STEPS)
        for _ in range(CALLS):
            world.clock.advance(1)
            world.reap()


def run(world: World, worker: Worker, *queues: str) -> None:
    """Run all that waits, a second each."""
    while leases := worker.take(50, *queues):
        world.clock.advance(1)
        worker.claim(0, finishes=[Finish(lease.fence, seconds=1.0) for lease in leases])


def kinds(world: World) -> set[str]:
    """The kinds of keys that are there."""
    prefix = world.store.engine.keys.prefix
    names = (key.decode().removeprefix(prefix) for key, _, _ in world.store.engine.dump())
    return {name.partition(":")[0] for name in names}


def unused_queue(world: World, worker: Worker) -> None:
    """A queue had jobs, and neither a job nor a claim names it any more."""
    world.publish("a", queue="gone")
    run(world, worker, "gone")


def debts_of_an_unused_queue(world: World, worker: Worker) -> None:
    """Workspaces are still in debt there, and no claim forgets them."""
    for n in range(200):
        world.publish(f"gone{n}", queue="gone")
    run(world, worker, "gone")
    assert "indebted" in traces(world, "gone")


def emptied_queue(world: World, worker: Worker) -> None:
    """Its one job was cancelled, no worker was ever there, and none reports it."""
    job_id = world.publish("a", queue="gone", delay_seconds=1)
    world.clock.advance(1)
    world.reap()
    world.jobs.cancel(job_id)


def declared_queue(world: World, worker: Worker) -> None:
    """It was declared, and no job came."""
    world.store.declare("gone", plain=False)
    world.store.declare("gone for good", plain=True)


def unique_keys(world: World, worker: Worker) -> None:
    """Some count while their job lives, and some for a time."""
    for n in range(20):
        job = Job(f"u{n}", f"gone{n}", "q", "t", b"")
        admission = Admission(unique_key="k", unique_for=60 if n % 2 else None)
        world.store.publish(job, admission)
    run(world, worker)


def lost_jobs(world: World, worker: Worker) -> None:
    """They were acked early, and their worker died."""
    world.publish("gone")
    worker.finish(worker.take_one(), ending=Ending.ACK_EARLY)
    world.pass_time(40)
    assert "counts" in traces(world, "gone")


def observed_limits(world: World, worker: Worker) -> None:
    """They would have blocked a start and a publish."""
    world.configure(enforced=False, authoritative=True, default=Limits(concurrency=1, capacity=1))
    for _ in range(2):
        world.publish("gone")
    leases = worker.take(2)
    assert all(worker.finish(lease) for lease in leases)
    assert "counts" in traces(world, "gone")


def unnamed_workspaces(world: World, worker: Worker) -> None:
    """Jobs of a task named none."""
    job = Job("n", "default", "q", "gone", b"")
    world.store.publish(job, Admission(without_workspace=True))
    run(world, worker)


def dead_letters(world: World, worker: Worker) -> None:
    """They are kept for a month, in 30 workspaces."""
    for n in range(30):
        world.publish(f"gone{n}")
        worker.reject(worker.take_one())


def task_s_limits(world: World, worker: Worker) -> None:
    """A task had a rate and is idle; another had limits, and has none any more."""
    world.limit_task("slow", rate=0.1, workspace_rate=0.1)
    world.limit_task("t", concurrency=1)
    for task in ("slow", "t"):
        world.publish("gone", queue="gone", task=task)
    run(world, worker, "gone")
    world.store.set_limits("task", "slow", None)
    world.store.set_limits("task", "t", None)


def limited_workspaces(world: World, worker: Worker) -> None:
    """They had limits of their own, of a provider and of a group, and a pause, and have none."""
    world.configure(provided=True)
    for n in range(30):
        name = f"gone{n}"
        world.limit(name, concurrency=2, rate=100.0, reserve=1, parent="gone-org")
        world.store.put_provider_limits(name, Limits(concurrency=3))
        job = Job(f"gone{n}", name, "q", "t", b"", n % 3, n % 2, 60.0)
        world.store.publish(job, Admission(group=f"gone-group{n}"))
    world.store.pause("workspace", "gone7", Pause.PAUSED)
    world.pass_time(5)
    run(world, worker)
    world.store.pause("workspace", "gone7", None)
    run(world, worker)
    world.configure(provided=False, authoritative=True)
    for n in range(30):
        world.store.set_limits("workspace", f"gone{n}", None)


ALWAYS = {
    "shard",
    "duration_estimates",
    "activity",
    "limits",
}
"""Kinds of which there is one key, with few fields."""


def tasks_of_jobs(world: World, worker: Worker) -> None:
    """Each was the task of one job; one had a limit, too."""
    world.limit_task("gone0", concurrency=1)
    for n in range(100):
        world.publish(task=f"gone{n}")
    run(world, worker)
    world.store.set_limits("task", "gone0", None)


WHAT: dict[str, tuple[Callable[[World, Worker], None], set[str]]] = {
    "an unused queue": (unused_queue, set()),
    "its debts": (debts_of_an_unused_queue, set()),
    "an emptied queue": (emptied_queue, {"noted"}),  # the cancel is an act
    "a declared queue": (declared_queue, set()),
    "unique keys": (unique_keys, set()),
    "lost jobs": (lost_jobs, set()),
    "observed limits": (observed_limits, {"limits_with", "stored_by"}),
    "unnamed workspaces": (unnamed_workspaces, set()),
    "dead letters": (dead_letters, set()),
    "a task's limits": (task_s_limits, set()),
    "limits, groups and pauses of workspaces": (limited_workspaces, set()),
    "tasks": (tasks_of_jobs, set()),
}


@pytest.mark.parametrize("how", [idle, reap])
@pytest.mark.parametrize("what", WHAT)
def test_it_goes(
    world: World, what: str, how: Callable[[World, Worker, float, *tuple[str, ...]], None]
) -> None:
    """With claims that find nothing, and with reaps alone."""
    leave, kept = WHAT[what]
    leave(world, worker := world.worker())
    assert traces(world, "gone")
    how(world, worker, 150)
    run(world, worker)
    assert traces(world, "gone") - kept == set()
    assert kinds(world) <= ALWAYS | kept
    assert sound(world)


def queues(world: World) -> set[str]:
    """The queues that statistics name."""
    return set(world.stats().queues)


def test_a_queue_that_is_claimed_stays(world: World, worker: Worker) -> None:
    """A worker that waits for its jobs uses it; the others go, unless one is published."""
    names = ("q", "claimed", "gone", "again")
    for queue in names:
        world.store.declare(queue, plain=False)
        world.publish(queue=queue)
    run(world, worker, *names)
    idle(world, worker, 3, "q", "claimed")
    assert queues(world) == {"q", "claimed"}
    world.publish(queue="again")
    assert queues(world) == {"q", "claimed", "again"}
    assert world.store.is_plain("claimed") is False
    assert world.store.is_plain("gone") is None


def test_a_queue_is_used_by_a_job_that_waits_for_long(world: World) -> None:
    """A schedule of weeks ahead keeps the queue."""
    world.publish(queue="later", delay_seconds=60 * DAY)
    idle(world, worker := world.worker(), 50)
    world.clock.advance(20 * DAY)
    world.reap()
    assert len(worker.take(1, "later")) == 1
    assert sound(world)


def test_a_part_that_fails_stops_no_other(world: World) -> None:
    """A key of another type is noted, and what comes after it goes all the same."""
    lost_jobs(world, worker := world.worker())
    key = world.store.engine.keys.key
    world.store.engine.command("DEL", key("unique"))
    world.store.engine.command("SET", key("unique"), "what")
    idle(world, worker, 50)
    assert traces(world, "gone") == set()
    assert set(world.store.set_aside()) == {"failure"}


def test_what_is_left_goes_page_by_page(world: World) -> None:
    """No call looks at more than a page, and the next one goes on where it was."""
    for n in range(1000):
        job = Job(f"u{n}", "a", "q", "t", b"")
        world.store.publish(job, Admission(unique_key=f"k{n}", unique_for=3600))
    run(world, worker := world.worker())
    left = [1000]
    world.clock.advance(3600)
    for _ in range(60):
        world.clock.advance(30)
        assert worker.take() == []
        left.append(world.command("HLEN", "unique"))
    assert left[-1] == 0
    assert max(one - other for one, other in pairwise(left)) <= MOST_IN_ONE_CALL


@pytest.mark.parametrize(("size", "fewest", "most"), [(100, 10, 20), (20_000, 60, 130)])
def test_large_jobs_are_looked_at_in_small_pages(
    world: World, size: int, fewest: int, most: int
) -> None:
    """A call reads a few hundred kilobytes: Valkey gives more at a time than Redis."""
    for _ in range(600):
        world.publish(payload=b"x" * size)
    engine, calls = world.store.engine, 0
    while not calls or take_look(engine).rebuild_at == 0:
        world.reap()
        calls += 1
    assert fewest <= calls <= most
