"""Dead letters: what is known of them, how they come back, and how long they are kept."""

from __future__ import annotations

import pytest

from fairqueue import DeadLetter
from tests.contract.world import Worker, World, ids


def die(world: World, worker: Worker, *, times: int = 1) -> None:
    """Let the next job lose its worker so often."""
    for _ in range(times):
        worker.take_one()
        world.pass_time(31)


def bury(world: World, count: int, workspace: str = "a") -> list[str]:
    """So many dead letters, a second apart."""
    worker, published = world.worker(f"digger of {workspace}"), []
    for _ in range(count):
        published.append(world.publish(workspace))
        worker.reject(worker.take_one())
        world.clock.advance(1)
    return published


def names(letters: list[DeadLetter]) -> list[str]:
    """Ids, as listed."""
    return [letter.job.id for letter in letters]


def test_a_letter_tells_what_happened(world: World) -> None:
    """Job, reason, time, and of each start who held the lease, for how long, and how it ended."""
    world.max_deliveries = 2
    world.publish("a: {x}", "j 1", task="t: 1", payload=b"\x00\n|", priority=3)
    first, second = world.worker("host:1:aa"), world.worker("host:2, b")
    started = world.clock()
    lease = first.take_one()
    first.renew(lease, seconds=4.0)
    world.pass_time(41)
    again = second.take_one()
    assert second.release(again, counted=True, seconds=2.5)
    (letter,) = world.dead("a: {x}")
    assert letter.job == lease.job
    assert (letter.reason, letter.deliveries) == ("max_deliveries", 2)
    assert letter.died == pytest.approx(world.clock())
    one, two = letter.history
    assert (one.owner, one.outcome, one.fence) == ("host:1:aa", "lost", lease.fence)
    assert (two.owner, two.outcome, two.fence) == ("host:2, b", "returned", again.fence)
    assert one.claimed == pytest.approx(started)
    assert two.ended == pytest.approx(world.clock())


@pytest.mark.parametrize(("told", "kept"), [(1.5, 1.5), (60.0, 2.0)])
def test_a_start_used_no_more_seconds_than_its_lease_lasted(
    world: World, told: float, kept: float
) -> None:
    """What a worker says it used is kept, up to the time since it claimed."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    world.clock.advance(2)
    worker.reject(lease, seconds=told)
    (letter,) = world.dead()
    assert letter.history[0].seconds == pytest.approx(kept)


def test_a_rejected_letter_names_its_reason(world: World) -> None:
    """As it was given, whatever is in it."""
    world.publish()
    worker = world.worker()
    worker.reject(worker.take_one(), reason="no such task:\n it's gone, 100 %")
    (letter,) = world.dead()
    assert letter.reason == "no such task:\n it's gone, 100 %"
    assert [start.outcome for start in letter.history] == ["rejected"]


def test_what_does_not_count_is_no_history(world: World) -> None:
    """A stopping worker gives back; the history tells of starts that count, the last sixteen."""
    world.max_deliveries = 30
    world.publish()
    worker = world.worker()
    worker.release(worker.take_one())
    for _ in range(30):
        worker.release(worker.take_one(), counted=True)
    (letter,) = world.dead()
    assert (letter.deliveries, len(letter.history)) == (30, 16)


def test_letters_are_listed_page_by_page(world: World) -> None:
    """Oldest first, and one by its id."""
    published = bury(world, 5)
    store = world.store
    assert names(world.dead()) == published
    assert names(store.dead_letters("a", start=1, count=2)) == published[1:3]
    assert names(store.dead_letters("a", job_id=published[3])) == [published[3]]
    assert store.dead_letters("a", job_id="x") == store.dead_letters("nobody") == []


def test_a_replayed_letter_is_a_job_of_its_old_workspace(world: World) -> None:
    """With its payload, task, priority and id; its starts count from none, no capacity minds."""
    world.publish("b", "j", task="t", payload=b"p", priority=7)
    worker = world.worker()
    lease = worker.take_one()
    worker.reject(lease)
    world.limit("b", capacity=0)
    assert sum(world.store.replay("b", job_id="j")) == 1
    assert world.row("b").dead == 0
    again = worker.take_one()
    assert again.job == lease.job
    assert (again.deliveries, again.redelivered) == (1, True)
    assert sum(world.store.replay("b", job_id="j")) == 0


def test_all_are_replayed_in_their_order(world: World) -> None:
    """Also more than a page of them; those of others stay."""
    published = bury(world, 230)
    bury(world, 1, "b")
    assert sum(world.store.replay("a")) == 230
    assert (world.row().dead, world.row("b").dead) == (0, 1)
    assert ids(world.worker().take(230)) == published


def test_a_replay_is_paced(world: World) -> None:
    """Each is due so long after the one before; who asked need not wait for it."""
    published = bury(world, 130)
    sum(world.store.replay("a", spacing_seconds=2))
    worker = world.worker()
    assert ids(worker.take(9)) == published[:1]
    world.clock.advance(2.5)
    assert ids(worker.take(9)) == published[1:2]
    assert world.row().scheduled == 128
    world.clock.advance(2 * 130)
    while world.reap():
        pass
    assert len(worker.take(200)) == 128


def test_a_letter_whose_id_lives_again_stays_dead(world: World) -> None:
    """It is not replayed over the living one."""
    bury(world, 3)
    (job, *_) = names(world.dead())
    world.clock.advance(300)
    world.publish("a", job)
    assert sum(world.store.replay("a")) == 2
    assert names(world.dead()) == [job]


def test_letters_are_dropped(world: World) -> None:
    """One, or all of a workspace; those of others stay."""
    first, *_ = bury(world, 130)
    bury(world, 1, "b")
    assert sum(world.store.drop_dead("a", job_id=first)) == 1
    assert sum(world.store.drop_dead("a")) == 129
    assert (world.row().dead, world.row("b").dead) == (0, 1)


def test_letters_are_kept_for_a_while(world: World) -> None:
    """Older ones go by and by; live work is never touched."""
    world.configure(dead_letter_seconds=60.0, authoritative=True)
    bury(world, 3)
    world.publish(delay_seconds=1e6)
    waiting = world.publish()
    world.pass_time(50)
    assert world.row().dead == 3
    world.pass_time(30)
    assert (world.row().dead, world.row().scheduled) == (0, 1)
    assert ids(world.worker().take(5)) == [waiting]


def test_a_number_of_letters_is_kept(world: World) -> None:
    """The youngest of each workspace."""
    world.configure(dead_letter_count=3, authoritative=True)
    published = bury(world, 5)
    bury(world, 2, "b")
    assert names(world.dead()) == published[2:]
    assert world.row("b").dead == 2


def test_without_bounds_they_are_kept(world: World) -> None:
    """None means no bound."""
    world.configure(dead_letter_seconds=None, dead_letter_count=None, authoritative=True)
    bury(world, 2)
    world.clock.advance(400 * 86400)
    world.reap()
    assert len(world.dead()) == 2


def test_who_died_of_lost_workers_has_a_notice(world: World) -> None:
    """It is one worker's for a while, then anybody's, until it has been told."""
    world.max_deliveries = 1
    job = world.publish()
    die(world, world.worker())
    take = world.store.take_notices
    assert take(["other"], n=9, hold_seconds=30) == []
    (letter,) = take(["other", "q"], n=9, hold_seconds=30)
    assert (letter.job.id, letter.reason) == (job, "max_deliveries")
    assert take(["q"], n=9, hold_seconds=30) == []
    world.clock.advance(31)
    assert names(take(["q"], n=9, hold_seconds=30)) == [job]
    assert world.store.drop_notices([letter]) == 1
    world.clock.advance(31)
    assert take(["q"], n=9, hold_seconds=30) == []
    assert world.store.drop_notices([letter]) == 0
    assert names(world.dead()) == [job]


def test_who_was_rejected_has_none(world: World) -> None:
    """Who rejects a job knows of its death."""
    bury(world, 1)
    assert world.store.take_notices(["q"], n=9, hold_seconds=30) == []


@pytest.mark.parametrize("how", ["replay", "drop_dead"])
def test_a_notice_goes_with_its_letter(world: World, how: str) -> None:
    """A job that lives again is not reported dead."""
    world.max_deliveries = 1
    world.publish()
    die(world, world.worker())
    assert sum(getattr(world.store, how)("a")) == 1
    assert world.store.take_notices(["q"], n=9, hold_seconds=30) == []


def test_notices_are_taken_in_small_numbers(world: World) -> None:
    """At most as many as asked for, each by one caller."""
    world.max_deliveries = 1
    published = world.publish_many(5)
    world.worker().take(5)
    world.pass_time(31)
    taken: list[str] = []
    for count in (2, 2, 1, 0):
        some = names(world.store.take_notices(["q"], n=2, hold_seconds=30))
        assert len(some) == count
        taken += some
    assert sorted(taken) == sorted(published)
