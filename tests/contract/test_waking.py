"""Wake-ups: a runnable job and an idle waiter never coexist, and nobody is woken for nothing."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fairqueue import Limits, Waiter
from tests.contract.world import World, ids

LONG = 30.0  # a wait that would last so long has failed; what is awaited comes at once
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


def test_a_publish_wakes_who_waits(world: World) -> None:
    """The descriptor becomes readable, and the wait says that it was woken."""
    with _armed(world) as waiter:
        assert not _readable(waiter, SHORT)
        world.publish()
        assert _readable(waiter)
        assert waiter.collect()


def test_a_wait_ends_by_itself(world: World) -> None:
    """When its time is up it says that it was not woken."""
    with _armed(world, seconds=SHORT) as waiter:
        assert _readable(waiter)
        assert not waiter.collect()


def test_a_blocking_wait_ends_by_itself(world: World) -> None:
    """The same without an event loop."""
    waiter = world.store.waiter(["q"])
    assert not waiter.wait(SHORT)
    waiter.close()


def test_a_wake_up_between_check_and_sleep_is_not_lost(world: World) -> None:
    """What is published after a claim found nothing and before the wait began wakes at once."""
    worker, waiter = world.worker(), world.store.waiter(["q"])
    assert worker.take() == []
    world.publish()
    assert waiter.wait(LONG)
    waiter.close()


def test_a_waiter_can_wait_again(world: World) -> None:
    """Woken, timed out, woken: one waiter serves for ever."""
    worker, waiter = world.worker(), world.store.waiter(["q"])
    for _ in range(3):
        world.publish()
        assert waiter.wait(LONG)
        worker.finish(worker.take_one())
        assert worker.take() == []
        assert not waiter.wait(SHORT)
    waiter.close()


def test_arming_twice_is_arming_once(world: World) -> None:
    """The second call changes nothing."""
    with _armed(world) as waiter:
        waiter.arm(LONG)
        world.publish()
        assert _readable(waiter)
        assert waiter.collect()


@pytest.mark.parametrize("queue", ["q1", "q2"])
def test_any_of_its_queues_wakes(world: World, queue: str) -> None:
    """A waiter for two queues hears of both, and of no other."""
    with _armed(world, "q1", "q2") as waiter:
        world.publish(queue="other")
        assert not _readable(waiter, SHORT)
        world.publish(queue=queue)
        assert _readable(waiter)


def test_one_piece_of_work_wakes_one(world: World) -> None:
    """Of two who wait the first is woken; the second sleeps on."""
    with _armed(world) as first, _armed(world) as second:
        world.publish()
        assert _readable(first)
        assert not _readable(second, SHORT)


def test_who_leaves_work_behind_wakes_the_next(world: World) -> None:
    """A claimer that takes one of two workspaces' jobs passes the wake-up on."""
    with _armed(world) as first, _armed(world) as second:
        world.publish("a")
        world.publish("b")
        assert _readable(first)
        world.worker().take_one()
        assert _readable(second)


def test_who_leaves_nothing_wakes_nobody(world: World) -> None:
    """After the last job was taken nobody is woken for nothing."""
    world.publish("a")
    world.worker().take_one()
    with _armed(world) as waiter:
        assert not _readable(waiter, SHORT)


def test_work_that_is_held_back_wakes_nobody(world: World) -> None:
    """A job of a workspace at its limit is no reason to wake."""
    world.limit(concurrency=1)
    world.publish_many(2)
    world.worker().take_one()
    with _armed(world) as waiter:
        world.publish()
        assert not _readable(waiter, SHORT)


def test_a_freed_slot_wakes(world: World) -> None:
    """A finish by another worker lets the next job of a limited workspace start."""
    world.limit(concurrency=1)
    world.publish_many(2)
    worker = world.worker()
    lease = worker.take_one()
    with _armed(world) as waiter:
        worker.finish(lease)
        assert _readable(waiter)


@pytest.mark.parametrize("scope", ["queue", "total"])
def test_a_freed_shared_slot_wakes(world: World, scope: str) -> None:
    """A slot of a queue, or of the total, that is freed lets another workspace start."""
    world.store.set_limits(scope, "q" if scope == "queue" else "", Limits(concurrency=1))
    world.publish("a")
    world.publish("b")
    worker = world.worker()
    lease = worker.take_one()
    with _armed(world) as waiter:
        assert not _readable(waiter, SHORT)
        worker.finish(lease)
        assert _readable(waiter)


def test_a_freed_slot_of_the_total_wakes_other_queues(world: World) -> None:
    """Whoever waits for another queue hears of it too."""
    world.store.set_limits("total", "", Limits(concurrency=1))
    world.publish(queue="q1")
    world.publish(queue="q2")
    worker = world.worker()
    lease = worker.take_one("q1")
    with _armed(world, "q2") as waiter:
        worker.finish(lease)
        assert _readable(waiter)


def test_a_raised_limit_wakes(world: World) -> None:
    """What was parked under the old one can be claimed."""
    world.limit(concurrency=0)
    world.publish()
    with _armed(world) as waiter:
        assert not _readable(waiter, SHORT)
        world.limit(concurrency=1)
        assert _readable(waiter)


@pytest.mark.parametrize("scope", ["queue", "total"])
def test_a_raised_shared_limit_wakes(world: World, scope: str) -> None:
    """A queue, or the total, that opens wakes who waits."""
    name = "q" if scope == "queue" else ""
    world.store.set_limits(scope, name, Limits(concurrency=0))
    world.publish()
    with _armed(world) as waiter:
        assert not _readable(waiter, SHORT)
        world.store.set_limits(scope, name, Limits(concurrency=1))
        assert _readable(waiter)


def test_a_release_wakes(world: World) -> None:
    """A job that is given back can be taken by another."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    with _armed(world) as waiter:
        worker.release(lease)
        assert _readable(waiter)


def test_a_reaped_job_wakes(world: World) -> None:
    """A dead worker's job can be taken by another."""
    world.publish()
    world.worker("dead").take_one()
    with _armed(world) as waiter:
        world.pass_time(20)
        assert not _readable(waiter, SHORT)
        world.pass_time(11)
        assert _readable(waiter)


def test_a_due_job_wakes_once_its_timer_fires(world: World) -> None:
    """Whoever lets time's work be done wakes the one who waits."""
    world.publish(delay_seconds=5)
    with _armed(world) as waiter:
        world.clock.advance(5)
        world.reap()
        assert _readable(waiter)


def test_a_closed_waiter_passes_its_wake_up_on(world: World) -> None:
    """One that was woken and is closed before it could claim wakes the next."""
    first, second = world.store.waiter(["q"]), world.store.waiter(["q"])
    first.arm(LONG)
    world.publish()
    assert _readable(first)
    second.arm(LONG)
    assert not _readable(second, SHORT)
    first.close()
    assert _readable(second)
    second.close()


def test_a_closed_waiter_takes_no_wake_up(world: World) -> None:
    """One that was closed while it waited does not swallow what comes after."""
    first = world.store.waiter(["q"])
    first.arm(LONG)
    first.close()
    world.publish()
    with _armed(world) as second:
        assert _readable(second)


def test_closing_twice_is_closing_once(world: World) -> None:
    """A closed waiter may be closed again, armed or not, and keeps no wake-up from others."""
    waiter = world.store.waiter(["q"])
    waiter.close()
    waiter.arm(LONG)
    waiter.close()
    waiter.close()
    with _armed(world) as next_one:
        world.publish()
        assert _readable(next_one)


def test_one_idle_claimer_watches_and_the_others_poll(world: World) -> None:
    """The first is told to come for the next event, others at the safety poll."""
    world.publish(delay_seconds=1)
    assert world.worker("w1").claim().wait_seconds == pytest.approx(1)
    assert world.worker("w2").claim().wait_seconds > 2


def test_the_watcher_is_told_the_same_again(world: World) -> None:
    """It goes on watching for as long as it comes."""
    world.publish(delay_seconds=2)
    worker = world.worker()
    worker.take()
    world.clock.advance(0.5)
    assert worker.claim().wait_seconds == pytest.approx(1.5)


def test_a_watcher_that_died_is_replaced(world: World) -> None:
    """When it is overdue the next claimer watches instead."""
    world.publish(delay_seconds=2.5)
    world.worker("dead").take()
    world.publish(delay_seconds=6)
    world.clock.advance(4)
    worker = world.worker()
    worker.take_one()
    assert worker.claim().wait_seconds == pytest.approx(2)


def test_what_is_due_before_the_watcher_wakes_wakes_somebody(world: World) -> None:
    """A job that is published with an earlier time than all others leaves a wake-up."""
    world.publish(delay_seconds=2.5)
    worker = world.worker()
    assert worker.claim().wait_seconds == pytest.approx(2.5, abs=0.5)
    with _armed(world) as waiter:
        world.publish(delay_seconds=0.5)
        assert _readable(waiter)
    assert worker.claim().wait_seconds == pytest.approx(0.5)


def test_what_is_due_later_wakes_nobody(world: World) -> None:
    """The watcher will be there in time."""
    world.publish(delay_seconds=0.5)
    world.worker().claim()
    with _armed(world) as waiter:
        world.publish(delay_seconds=2)
        assert not _readable(waiter, SHORT)


def test_an_expiring_lease_is_watched_for(world: World) -> None:
    """An idle claimer comes when the next lease ends, if that is before the poll."""
    world.publish("a", "x")
    world.worker("dead").take_one()
    world.pass_time(20)
    world.clock.advance(9)
    worker = world.worker()
    wait = worker.claim().wait_seconds
    assert wait == pytest.approx(1)
    world.clock.advance(wait)
    assert ids(worker.take()) == ["x"]


def test_a_token_that_is_given_back_beside_another_wakes_once(world: World) -> None:
    """While one was taken another may have been left: nobody is woken for nothing after it."""
    first = world.store.waiter(["q"])
    first.arm(LONG)
    world.publish("a")
    assert _readable(first)
    world.publish("b")
    first.close()
    with _armed(world) as second, _armed(world) as third:
        assert _readable(second)
        assert not _readable(third, SHORT)


def test_who_turned_a_job_away_watches_for_it_no_more(world: World) -> None:
    """Another claimer is woken to watch, so that the job does not come to the same one again."""
    world.publish("a", "j1")
    one, other = world.worker("one"), world.worker("other")
    [lease] = one.claim(2).leases  # it wanted more, and so it watches
    with _armed(world) as idle:
        assert one.release(lease, delay_seconds=2.0, turned_away=True)

        assert _readable(idle)
        assert other.claim().wait_seconds == pytest.approx(2.0)
        assert one.claim().wait_seconds > 2.0


def test_a_shy_watcher_is_relieved_by_any_other(world: World) -> None:
    """Alone it watches, and looks a little later; who is not shy takes its place, and keeps it."""
    world.publish("a", "j1", delay_seconds=2.0)
    one, two, other = (world.worker(name) for name in ("one", "two", "other"))

    assert one.claim(shy=True).wait_seconds == pytest.approx(2.1)
    assert two.claim(shy=True).wait_seconds > 2.2
    assert other.claim().wait_seconds == pytest.approx(2.0)
    assert one.claim(shy=True).wait_seconds > 2.2
    world.clock.advance(2.0)
    assert ids(other.take()) == ["j1"]


def test_a_shy_watcher_is_relieved_long_before_its_time(world: World) -> None:
    """Also while what it watches for is further away than the next poll."""
    world.publish("a", "j1", delay_seconds=4.0)
    one, other = world.worker("one"), world.worker("other")
    one.claim(shy=True)
    other.claim()
    world.clock.advance(2.0)

    assert other.claim().wait_seconds == pytest.approx(2.0)
    assert one.claim(shy=True).wait_seconds > 2.2
