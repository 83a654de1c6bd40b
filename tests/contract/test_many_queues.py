"""A workspace on many queues: where it closes or opens, its flows follow some with each call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairqueue.audit.keyspace import Keyspace
from fairqueue.audit.view import Audit
from tests.contract.world import Worker, World, sound

MANY = 145
NAMES = [f"q{n:03}" for n in range(MANY)]
MOST_CHANGED = 32
"""Flows that one call may change: a page, and those that it is about."""
MOST_CALLS = MANY // 4


def waits_on_many_queues(world: World) -> list[str]:
    """One job on each of these queues, and one may run."""
    world.limit("big", concurrency=1)
    for queue in NAMES:
        world.publish("big", queue=queue)
    return NAMES


def task_waits_on_many_queues(world: World) -> list[str]:
    """The same of a task, with a workspace for each of 100 queues."""
    world.limit_task(concurrency=1)
    for queue in NAMES[:100]:
        world.publish(queue, queue=queue)
    return NAMES[:100]


def states(world: World) -> dict[str, tuple[str, bool]]:
    """How the workspace stands on each queue."""
    rows = Keyspace(world.store.engine).workspaces.get("big")
    return {flow.lane_key: (flow.state, flow.reserved) for flow in rows.flows} if rows else {}


def changed(world: World, act: Callable[[], object]) -> int:
    """How many flows an action changes."""
    before = states(world)
    act()
    assert sound(world)
    after = states(world)
    return sum(before.get(key) != after.get(key) for key in before.keys() | after.keys())


def follow(world: World) -> None:
    """Reap until all flows have followed."""
    for _ in range(MOST_CALLS):
        look = Audit(Keyspace(world.store.engine), world.clock())
        if not (look.draining or look.follows(look.space.workspaces["big"])):
            return
        assert changed(world, world.reap) <= MOST_CHANGED
    raise AssertionError("not all flows have followed")


def test_a_limit_that_is_reached_is_never_exceeded(world: World) -> None:
    """Its flows leave their queues page by page, and one that is left starts nothing."""
    waits_on_many_queues(world)
    worker, other = world.worker("w1"), world.worker("w2")
    assert changed(world, lambda: worker.take_one("q050")) <= MOST_CHANGED
    for queue in reversed(NAMES):
        assert other.take(1, queue) == []
    assert sound(world)
    follow(world)
    assert {state for state, _ in states(world).values()} == {"at_limit", "idle"}


def test_a_limit_of_a_task_over_many_queues_is_never_exceeded(world: World) -> None:
    """Its nodes close page by page, and a claim on one that is still open starts nothing."""
    queues = task_waits_on_many_queues(world)
    worker, other = world.worker("w1"), world.worker("w2")
    assert len(worker.take(1, "q050")) == 1
    for queue in queues:
        assert other.take(1, queue) == []
        assert sound(world)


@pytest.mark.parametrize(
    ("wait", "rounds"), [(waits_on_many_queues, MANY), (task_waits_on_many_queues, 60)]
)
def test_a_limit_that_opens_and_closes_all_the_time_passes_over_no_queue(
    world: World, wait: Callable[[World], list[str]], rounds: int
) -> None:
    """Each queue has a worker, one job of all runs at a time, and in the end all have."""
    assert world.queues_left_after(wait(world), rounds=rounds) == set()
    world.reap()
    assert sound(world)


def test_a_queue_whose_job_ends_is_open_at_once(world: World, worker: Worker) -> None:
    """Its worker goes on without waiting for the others."""
    waits_on_many_queues(world)
    world.publish("big", queue="q091")
    lease = worker.take_one("q091")
    follow(world)
    worker.finish(lease)
    assert worker.take_one("q091").job.queue == "q091"


def test_a_job_that_is_published_while_others_follow_can_start(world: World) -> None:
    """A publish settles the flow that it is about, and so does a claim."""
    waits_on_many_queues(world)
    worker = world.worker()
    lease = worker.take_one("q000")
    follow(world)
    worker.finish(lease)
    for queue in ("q099", "new"):
        world.publish("big", queue=queue, priority=1)
        assert sound(world)
        lease = worker.take_one(queue)
        assert worker.finish(lease)
        assert sound(world)


def test_a_waiting_owner_is_woken_for_the_next_queue(world: World, worker: Worker) -> None:
    """While flows follow an opened workspace, the next of them has a token, so that they go on."""
    waits_on_many_queues(world)
    lease = worker.take_one("q000")
    follow(world)
    for queue in NAMES:  # as workers find nothing there
        worker.take(1, queue)
    assert worker.claim(1, "q000").wait_seconds > 0
    worker.finish(lease)
    closed = [queue for queue, (state, _) in states(world).items() if state == "at_limit"]
    tokens = [queue for queue in closed if world.command("LLEN", ("token", queue))]
    assert len(tokens) == 1


def test_a_tasks_rate_opens_each_of_many_queues(world: World) -> None:
    """The timer goes off for flows that no call has read since, and each starts in its turn."""
    world.limit_task(workspace_rate=1.0)
    for queue in NAMES:
        world.publish("big", queue=queue)
    worker, left = world.worker(), set(NAMES)
    for _ in range(3):
        started = [queue for queue in sorted(left) if worker.take(1, queue)]
        assert len(started) == 1
        left.remove(started[0])
        follow(world)
        world.publish("big", queue="elsewhere", task="other")  # a call about another flow
        worker.finish(worker.take_one("elsewhere"))
        assert sound(world)
        world.clock.advance(1.001)
        follow(world)
