"""Every key and field has a way out: what is not used any more goes, a page with each call."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from fairqueue import Job, Lease, Limits, Pause
from fairqueue.adapters import Admission, Ending, Finish
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
    return found - {"claimer", "activity"}


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
    assert "lost" in traces(world, "gone")


def observed_limits(world: World, worker: Worker) -> None:
    """They would have blocked a start and a publish."""
    world.configure(enforced=False, authoritative=True, default=Limits(concurrency=1, capacity=1))
    for _ in range(2):
        world.publish("gone")
    leases = worker.take(2)
    assert all(worker.finish(lease) for lease in leases)
    assert "observed" in traces(world, "gone")


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
    world.limit_task("slow", rate=0.1)
    world.limit_task("t", concurrency=1)
    for task in ("slow", "t"):
        world.publish("gone", queue="gone", task=task)
    run(world, worker, "gone")
    world.store.set_limits("task", "slow", None)
    world.store.set_limits("task", "t", None)


ALWAYS = {
    "acts",
    "meta",
    "totals",
    "tasks",
    "duration_estimates",
    "activity",
    "claimer",
    "rebuild",
    "nodes",
    "configured",
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
    "an emptied queue": (emptied_queue, set()),
    "a declared queue": (declared_queue, set()),
    "unique keys": (unique_keys, set()),
    "lost jobs": (lost_jobs, set()),
    "observed limits": (observed_limits, {"limits_with", "stored_by"}),
    "unnamed workspaces": (unnamed_workspaces, set()),
    "dead letters": (dead_letters, set()),
    "a task's limits": (task_s_limits, set()),
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
    return set(world.store.snapshot().queues)


def test_a_queue_that_is_claimed_stays(world: World) -> None:
    """A worker that waits for its jobs uses it; the others go, unless one is published."""
    worker = world.worker()
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
    engine, left = world.store.engine, [1000]
    world.clock.advance(3600)
    for _ in range(60):
        world.clock.advance(30)
        assert worker.take() == []
        left.append(engine.command("HLEN", engine.keys.key("unique")))
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
    progress = engine.keys.key("rebuild")
    while not calls or engine.command("GET", progress).split()[2] == b"0":  # until it rests
        world.reap()
        calls += 1
    assert fewest <= calls <= most


ONE_SHOT = 1000


def use_once(world: World, worker: Worker, n: int) -> None:
    """Publish to a workspace of its own, in one of the ways in which a workspace can be used."""
    name = f"once{n}"
    queue, task = (f"once-queue{n}", f"once-task{n}") if n % 10 == 0 else ("q", "t")
    world.publish(name, queue=queue, task=task, priority=n % 3, delay_seconds=n % 2)
    job = Job(f"once-job{n}", name, "q", f"once-task{n % 40}", b"")
    key = f"once-key{n}" if n % 4 == 0 else None
    unique_for = 600.0 if n % 8 == 0 else None
    group = f"once-group{n}" if n % 5 == 0 else None
    unnamed = n % 7 == 0
    world.store.publish(job, Admission(False, group, None, key, unique_for, unnamed))
    if n % 6 == 0:
        world.publish(name, expires_seconds=0.5)
    if n % 9 == 0:
        world.jobs.cancel(world.publish(name, delay_seconds=99))
    if n % 11 == 0:
        world.store.put_provider_limits(name, Limits(concurrency=3))


def end_somehow(worker: Worker, lease: Lease) -> None:
    """Most jobs are done; some die, are released, or are acked early and lost."""
    n = int(lease.job.workspace.removeprefix("once"))
    if n % 13 == 0:
        worker.reject(lease)
    elif n % 17 == 0 and not lease.redelivered:
        worker.release(lease, counted=True, delay_seconds=1)
    elif n % 19 == 0:
        worker.finish(lease, ending=Ending.ACK_EARLY)
    else:
        worker.finish(lease, 0.5)


def publish_all(world: World, worker: Worker) -> None:
    """Each workspace is used once; a third has limits of its own, a quarter under observed ones."""
    world.configure(enforced=False, default=Limits(concurrency=1, capacity=1), provided=True)
    for n in range(ONE_SHOT):
        if n == ONE_SHOT // 4:
            world.configure(provided=True, authoritative=True)
        if n % 3 == 0:
            world.limit(f"once{n}", concurrency=2, rate=100.0, reserve=1, parent="once-org")
        use_once(world, worker, n)
    world.limit_task("once-task1", concurrency=9, workspace_concurrency=1, rate=50.0)
    world.limit("once-org", concurrency=99)
    world.store.pause("workspace", "once7", Pause.PAUSED)


def run_all(world: World, worker: Worker) -> None:
    """Claim from every queue, two at a time."""
    own = [f"once-queue{n}" for n in range(0, ONE_SHOT, 10)]
    for queues in (("q",), *zip(own[::2], own[1::2], strict=True), ("q",)):
        for _ in range(100):
            world.clock.advance(1)
            leases = worker.take(16, *queues)
            for lease in leases:
                end_somehow(worker, lease)
            if not leases and queues != ("q",):
                break


def take_away(world: World, worker: Worker) -> None:
    """Resume what is paused, unset what was set, and purge some of the dead."""
    world.store.pause("workspace", "once7", None)
    for name in ("once-org", *(f"once{n}" for n in range(0, ONE_SHOT, 3))):
        world.store.set_limits("workspace", name, None)
    world.store.set_limits("task", "once-task1", None)
    world.pass_time(60)
    run(world, worker)
    for n in range(0, ONE_SHOT, 26):
        world.purge_all(f"once{n}")


@pytest.mark.slow
def test_one_shot_workspaces_leave_nothing(world: World) -> None:
    """With limits and groups that come and go, of which some are only observed, no name is left."""
    worker = world.worker()
    publish_all(world, worker)
    run_all(world, worker)
    assert len(traces(world, "once")) > 20
    take_away(world, worker)
    for _ in range(4):
        idle(world, worker, 40)
        for _ in range(10):  # each forgets some old answers
            world.store.put_provider_limits("other", None, keep_seconds=0)
    assert traces(world, "once") == set()
    assert sound(world)
