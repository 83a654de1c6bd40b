"""Wake-ups: an idle waiter is woken for every runnable job, and not without one."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fairqueue import Job, Limits, Pause
from fairqueue.adapters import Admission, Waiter
from tests.contract.world import Worker, World, ids

LONG = 30.0  # a wait this long means failure: all that is awaited comes at once
SHORT = 0.02
SOON = 5.0


@contextmanager
def _armed(world: World, *queues: str, seconds: float = LONG) -> Iterator[Waiter]:
    waiter = world.store.waiter(queues or ("q",))
    try:
        waiter.arm(seconds)
        yield waiter
    finally:
        waiter.close()


def _readable(waiter: Waiter, seconds: float = SOON) -> bool:
    return bool(select.select([waiter.fileno()], [], [], seconds)[0])


@pytest.mark.parametrize("seconds", [0.0, 0.0004, 0.001, 0.002, SHORT])
def test_a_wait_times_out(world: World, seconds: float) -> None:
    """None is taken for a wait without end, as Redis 6.2 takes BLPOP with 1 ms."""
    with _armed(world, seconds=seconds) as waiter:
        assert _readable(waiter)
        assert not waiter.collect()


def test_a_wake_up_between_check_and_sleep_is_not_lost(world: World) -> None:
    """A job published between an empty claim and the wait ends the wait at once."""
    worker, waiter = world.worker(), world.store.waiter(["q"])
    assert worker.take() == []
    world.publish()
    assert waiter.wait(LONG)
    waiter.close()


def test_a_waiter_can_wait_again(world: World) -> None:
    """One waiter can be woken, time out and be woken again."""
    worker, waiter = world.worker(), world.store.waiter(["q"])
    for _ in range(3):
        world.publish()
        assert waiter.wait(LONG)
        worker.finish(worker.take_one())
        assert worker.take() == []
        assert not waiter.wait(SHORT)
    waiter.close()


@pytest.mark.parametrize("queue", ["q1", "q2"])
def test_a_waiter_hears_of_all_its_queues(world: World, queue: str) -> None:
    """A waiter for two queues is woken for both, and for no other."""
    with _armed(world, "q1", "q2") as waiter:
        world.publish(queue="other")
        assert not _readable(waiter, SHORT)
        world.publish(queue=queue)
        assert _readable(waiter)
        assert waiter.collect()


def test_one_job_wakes_one_waiter(world: World) -> None:
    """Of two waiters the first is woken; the second sleeps on."""
    with _armed(world) as first, _armed(world) as second:
        world.publish()
        assert _readable(first)
        assert not _readable(second, SHORT)


def test_a_claimer_that_leaves_work_wakes_the_next(world: World) -> None:
    """A claimer that takes one of two workspaces' jobs passes the wake-up on."""
    with _armed(world) as first, _armed(world) as second:
        world.publish("a")
        world.publish("b")
        assert _readable(first)
        world.worker().take_one()
        assert _readable(second)


def test_a_claimer_that_leaves_no_work_wakes_no_waiter(world: World) -> None:
    """After the last job was claimed no wake-up is left."""
    world.publish("a")
    world.worker().take_one()
    with _armed(world) as waiter:
        assert not _readable(waiter, SHORT)


def test_a_blocked_job_wakes_no_waiter(world: World) -> None:
    """A publish to a workspace at its limit causes no wake-up."""
    world.limit(concurrency=1)
    world.publish_many(2)
    world.worker().take_one()
    with _armed(world) as waiter:
        world.publish()
        assert not _readable(waiter, SHORT)


Act = Callable[[], object]


def _freed(scope: str, name: str, workspace: str, queue: str = "q") -> Callable[[World], Act]:
    """The slot of one job is freed, and another job waits for it."""

    def prepare(world: World) -> Act:
        world.store.set_limits(scope, name, Limits(concurrency=1))
        world.publish("a", queue=queue)
        worker = world.worker()
        lease = worker.take_one(queue)
        world.publish(workspace)
        return lambda: worker.finish(lease)

    return prepare


def _raised(scope: str, name: str) -> Callable[[World], Act]:
    def prepare(world: World) -> Act:
        world.store.set_limits(scope, name, Limits(concurrency=0))
        world.publish()
        return lambda: world.store.set_limits(scope, name, Limits(concurrency=1))

    return prepare


def _resumed(scope: str, name: str) -> Callable[[World], Act]:
    def prepare(world: World) -> Act:
        world.publish()
        world.store.pause(scope, name, Pause.PAUSED)
        assert world.worker().take() == []
        return lambda: world.store.pause(scope, name, None)

    return prepare


def _released(world: World) -> Act:
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    return lambda: worker.release(lease)


def _reaped(world: World) -> Act:
    world.publish()
    world.worker("dead").take_one()
    world.pass_time(20)
    return lambda: world.pass_time(11)


def _due(world: World) -> Act:
    world.publish(delay_seconds=5)
    assert world.worker().take() == []  # it watches for the event
    return lambda: (world.clock.advance(5), world.reap())


CAUSES: dict[str, Callable[[World], Act]] = {
    "a freed slot of the workspace": _freed("workspace", "a", "a"),
    "a freed slot of the queue": _freed("queue", "q", "b"),
    "a freed slot of the total": _freed("total", "", "b"),
    "a freed slot of another queue": _freed("total", "", "b", "q1"),
    "a raised limit of the workspace": _raised("workspace", "a"),
    "a raised limit of the queue": _raised("queue", "q"),
    "a raised total": _raised("total", ""),
    "a resumed workspace": _resumed("workspace", "a"),
    "a resumed task": _resumed("task", "t"),
    "a resumed queue": _resumed("queue", "q"),
    "the end of a pause of everything": _resumed("total", ""),
    "a released job": _released,
    "a dead worker's job": _reaped,
    "a job that is due": _due,
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_job_that_can_start_wakes_a_waiter(world: World, cause: str) -> None:
    """Whatever it had waited for."""
    act = CAUSES[cause](world)
    with _armed(world) as waiter:
        assert not _readable(waiter, SHORT)
        act()
        assert _readable(waiter)


def test_a_closed_waiter_passes_its_wake_up_on(world: World) -> None:
    """A waiter that was woken and is closed before it could claim wakes the next."""
    first, second = world.store.waiter(["q"]), world.store.waiter(["q"])
    first.arm(LONG)
    world.publish()
    assert _readable(first)
    second.arm(LONG)
    assert not _readable(second, SHORT)
    first.close()
    assert _readable(second)
    second.close()


def test_closing_twice_is_closing_once(world: World) -> None:
    """A closed waiter can be closed again, armed or not, and takes no wake-up from others."""
    waiter = world.store.waiter(["q"])
    waiter.close()
    waiter.arm(LONG)
    waiter.close()
    waiter.close()
    with _armed(world) as next_one:
        world.publish()
        assert _readable(next_one)


def test_one_idle_claimer_waits_for_the_next_event(world: World) -> None:
    """The first is told to return for the next event, others at the safety poll."""
    world.publish(delay_seconds=1)
    assert world.worker("w1").claim().wait_seconds == pytest.approx(1)
    assert world.worker("w2").claim().wait_seconds > 2


def test_the_watcher_keeps_its_role(world: World, worker: Worker) -> None:
    """It watches for the next event as long as it returns in time."""
    world.publish(delay_seconds=2)
    worker.take()
    world.clock.advance(0.5)
    assert worker.claim().wait_seconds == pytest.approx(1.5)


def test_a_dead_watcher_is_replaced(world: World, worker: Worker) -> None:
    """When it is overdue, the next claimer watches instead."""
    world.publish(delay_seconds=2.5)
    world.worker("dead").take()
    world.publish(delay_seconds=6)
    world.clock.advance(4)
    worker.take_one()
    assert worker.claim().wait_seconds == pytest.approx(2)


def test_an_event_before_the_watchers_time_causes_a_wake_up(world: World, worker: Worker) -> None:
    """A job that is due before all others wakes a waiter to watch for it."""
    world.publish(delay_seconds=2.5)
    assert worker.claim().wait_seconds == pytest.approx(2.5, abs=0.5)
    with _armed(world) as waiter:
        world.publish(delay_seconds=0.5)
        assert _readable(waiter)
    assert worker.claim().wait_seconds == pytest.approx(0.5)


def test_the_earliest_of_many_events_causes_a_wake_up(world: World, worker: Worker) -> None:
    """Of jobs that are published in one call, whichever of them comes last."""
    world.publish(delay_seconds=2.5)
    worker.claim()
    with _armed(world) as waiter:
        world.store.publish_many(
            [
                (Job("early", "a", "q", "t", b"", delay_seconds=0.5), Admission()),
                (Job("late", "b", "q", "t", b"", delay_seconds=20.0), Admission()),
            ]
        )
        assert _readable(waiter)
    assert worker.claim().wait_seconds == pytest.approx(0.5)


def test_an_event_after_the_watchers_time_causes_no_wake_up(world: World) -> None:
    """The watcher returns in time."""
    world.publish(delay_seconds=0.5)
    world.worker().claim()
    with _armed(world) as waiter:
        world.publish(delay_seconds=2)
        assert not _readable(waiter, SHORT)


def test_an_expiring_lease_is_watched_for(world: World, worker: Worker) -> None:
    """An idle claimer returns when the next lease ends, if that is before the poll."""
    world.publish("a", "x")
    world.worker("dead").take_one()
    world.pass_time(20)
    world.clock.advance(9)
    wait = worker.claim().wait_seconds
    assert wait == pytest.approx(1)
    world.clock.advance(wait)
    assert ids(worker.take()) == ["x"]


def test_a_token_that_is_returned_beside_another_wakes_once(world: World) -> None:
    """If another token was left meanwhile, the returned one causes no second wake-up."""
    first = world.store.waiter(["q"])
    first.arm(LONG)
    world.publish("a")
    assert _readable(first)
    world.publish("b")
    first.close()
    with _armed(world) as second, _armed(world) as third:
        assert _readable(second)
        assert not _readable(third, SHORT)


def test_a_claimer_that_declined_a_job_no_longer_watches_for_it(world: World) -> None:
    """Another claimer is woken to watch, so that the job is not returned to the same one."""
    world.publish("a", "j1")
    one, other = world.worker("one"), world.worker("other")
    [lease] = one.claim(2).leases  # it asked for more, so it watches
    with _armed(world) as idle:
        assert one.release(lease, delay_seconds=2.0, declined=True)

        assert _readable(idle)
        assert other.claim().wait_seconds == pytest.approx(2.0)
        assert one.claim().wait_seconds > 2.0


def test_one_that_declined_a_job_watches_for_nothing(world: World) -> None:
    """Another claimer is woken to watch, also for what comes after the end of its own watch."""
    world.publish("a", "j1")
    one = world.worker("one")
    [lease] = one.claim(2).leases
    with _armed(world) as idle:
        assert one.release(lease, delay_seconds=20.0, declined=True)
        assert _readable(idle)


def test_a_yielding_watcher_is_replaced_by_any_other(world: World) -> None:
    """Alone it watches, and returns a little later; a claimer that need not yield replaces it."""
    world.publish("a", "j1", delay_seconds=2.0)
    one, two, other = (world.worker(name) for name in ("one", "two", "other"))

    assert one.claim(yield_first=True).wait_seconds == pytest.approx(2.1)
    assert two.claim(yield_first=True).wait_seconds > 2.2
    assert other.claim().wait_seconds == pytest.approx(2.0)
    assert one.claim(yield_first=True).wait_seconds > 2.2
    world.clock.advance(2.0)
    assert ids(other.take()) == ["j1"]


def test_a_yielding_watcher_is_replaced_long_before_its_time(world: World) -> None:
    """This also holds while its event is further away than the next poll."""
    world.publish("a", "j1", delay_seconds=4.0)
    one, other = world.worker("one"), world.worker("other")
    one.claim(yield_first=True)
    other.claim()
    world.clock.advance(2.0)

    assert other.claim().wait_seconds == pytest.approx(2.0)
    assert one.claim(yield_first=True).wait_seconds > 2.2
