"""Dead letters: what they record, how they are replayed, and how long they are kept."""

from __future__ import annotations

import pytest

from fairqueue import DeadLetter
from tests.contract.world import Worker, World, ids, sound


def die(world: World, worker: Worker, *, times: int = 1) -> None:
    """Let the next job lose its worker this many times."""
    for _ in range(times):
        worker.take_one()
        world.pass_time(31)


def kill_jobs(world: World, count: int, workspace: str = "a") -> list[str]:
    """Create dead letters, one per second."""
    worker, published = world.worker(f"digger of {workspace}"), []
    for _ in range(count):
        published.append(world.publish(workspace))
        worker.reject(worker.take_one())
        world.clock.advance(1)
    return published


def names(letters: list[DeadLetter]) -> list[str]:
    """Return the ids in the order of the list."""
    return [letter.job.id for letter in letters]


def test_a_dead_letter_has_a_history(world: World) -> None:
    """It has the job, the reason, the time, and the owner, duration and end of each start."""
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


def test_a_reason_may_be_empty(world: World) -> None:
    """As the text of an error may be: the letters of all workspaces stay readable."""
    job_id = world.publish("a")
    worker = world.worker()
    worker.reject(worker.take_one(), "", details="an error")
    (letter,) = world.dead("a")
    assert (letter.job.id, letter.reason, letter.details) == (job_id, "", "an error")


def test_an_error_with_a_lone_surrogate(world: World) -> None:
    """As Python raises it for a file whose name is not UTF-8."""
    worker = world.worker()
    world.publish()
    worker.reject(worker.take_one(), "failed \udc80", details="bad \udc80 name")
    (letter,) = world.dead()
    assert (letter.reason, letter.details) == (r"failed \udc80", r"bad \udc80 name")


@pytest.mark.parametrize("details", ["", "Traceback: {x}\n  100 % \x00 ü\nValueError: no"])
def test_a_dead_letter_has_what_its_framework_says(world: World, details: str) -> None:
    """Any text, whole up to 8,000 characters; then its end. A replay forgets it."""
    for text, kept in (
        (details, details),
        ("x" * 9_000 + details, ("x" * 9_000 + details)[-8000:]),
    ):
        name = world.publish()
        worker = world.worker(f"w {name}")
        lease = worker.take_one()
        assert worker.reject(lease, "failed", 1.0, details=text)
        (letter,) = world.dead()
        assert (letter.reason, letter.details, letter.job) == ("failed", kept, lease.job)
        assert world.store.replay("a", "q", lease.job.id)
        worker = world.worker(f"again {name}")
        worker.reject(worker.take_one(), "other")
        (letter,) = world.dead()
        assert (letter.reason, letter.details) == ("other", "")
        world.purge_all()


@pytest.mark.parametrize(("told", "kept"), [(1.5, 1.5), (60.0, 2.0)])
def test_a_run_cannot_exceed_its_lease(world: World, told: float, kept: float) -> None:
    """The reported seconds are kept, up to the time since the claim."""
    world.publish()
    worker = world.worker()
    lease = worker.take_one()
    world.clock.advance(2)
    worker.reject(lease, seconds=told)
    (letter,) = world.dead()
    assert letter.history[0].seconds == pytest.approx(kept)


def test_the_history_has_only_counted_starts(world: World) -> None:
    """Uncounted releases leave no entry, and only the last sixteen starts are kept."""
    world.max_deliveries = 30
    world.publish()
    worker = world.worker()
    worker.release(worker.take_one())
    for _ in range(30):
        worker.release(worker.take_one(), counted=True)
    (letter,) = world.dead()
    assert (letter.deliveries, len(letter.history)) == (30, 16)


def test_dead_letters_are_listed_in_pages(world: World) -> None:
    """They are listed oldest first, or looked up by id."""
    published = kill_jobs(world, 5)
    store = world.store
    assert names(world.dead()) == published
    assert names(store.dead_letters("a", start=1, count=2)) == published[1:3]
    assert names(store.dead_letters("a", job_id=published[3])) == [published[3]]
    assert store.dead_letters("a", job_id="x") == store.dead_letters("unknown") == []


def test_a_replayed_job_returns_to_its_workspace(world: World, worker: Worker) -> None:
    """It keeps payload, task, priority and id; deliveries start again, capacity is ignored."""
    world.publish("b", "j", task="t", payload=b"p", priority=7)
    lease = worker.take_one()
    worker.reject(lease)
    world.limit("b", capacity=0)
    assert world.store.replay("b", "q", "j")
    assert world.row("b").dead == 0
    again = worker.take_one()
    assert again.job == lease.job
    assert (again.deliveries, again.redelivered) == (1, True)
    assert not world.store.replay("b", "q", "j")


def test_all_dead_letters_are_replayed_in_order(world: World) -> None:
    """More than a page of them is; other workspaces keep theirs."""
    published = kill_jobs(world, 230)
    kill_jobs(world, 1, "b")
    assert world.replay_all() == 230
    assert (world.row().dead, world.row("b").dead) == (0, 1)
    assert ids(world.worker().take(230)) == published


def test_dead_letters_are_kept_for_a_time(world: World) -> None:
    """Older ones are dropped gradually; live jobs are never touched."""
    world.configure(dead_letter_seconds=60.0, authoritative=True)
    first, *_ = kill_jobs(world, 3)
    world.publish(delay_seconds=1e6)
    waiting = world.publish()
    world.pass_time(50)
    assert world.row().dead == 3
    world.clock.advance(11)  # none is dropped yet, and none is shown
    assert world.dead() == world.store.dead_letters("a", job_id=first) == []
    world.pass_time(30)
    assert (world.row().dead, world.row().scheduled) == (0, 1)
    assert ids(world.worker().take(5)) == [waiting]


def test_a_number_of_dead_letters_is_kept(world: World) -> None:
    """The youngest of each workspace are."""
    world.configure(dead_letter_count=3, authoritative=True)
    published = kill_jobs(world, 5)
    kill_jobs(world, 2, "b")
    assert names(world.dead()) == published[2:]
    assert world.row("b").dead == 2


def test_every_failure_is_reported_however_few_letters_are_kept(world: World) -> None:
    """What expired beyond their number is no dead letter any more, and is reported once."""
    world.configure(dead_letter_count=3, authoritative=True)
    published = [world.publish("a", expires_seconds=n + 1) for n in range(10)]
    for _ in published:
        world.clock.advance(1)
        world.reap()
    first = world.store.take_failure_notices(["q"], n=2, hold_seconds=30)
    world.publish("a", "one more", expires_seconds=1)
    world.pass_time(5)
    assert names(world.dead()) == [*published[-2:], "one more"]
    rest = world.store.take_failure_notices(["q"], n=99, hold_seconds=30)
    assert sorted(names([*first, *rest])) == sorted([*published, "one more"])
    assert {letter.reason for letter in rest} == {"expired"}
    assert world.store.drop_failure_notices([*first, *rest]) == 11
    world.pass_time(60)
    assert world.store.take_failure_notices(["q"], n=99, hold_seconds=30) == []
    assert sound(world)
    assert world.row().dead == 3


def test_a_report_drops_the_notice_of_its_own_death(world: World) -> None:
    """Not that of the same id's next death, whether its first letter is kept apart or replayed."""
    world.configure(dead_letter_count=1, authoritative=True)

    def died(job_id: str) -> list[DeadLetter]:
        world.publish("a", job_id, expires_seconds=1)
        world.pass_time(130)  # then the id is not remembered any more
        return world.store.take_failure_notices(["q"], n=9, hold_seconds=30)

    [first], second = died("x"), died("y")
    again = died("x")
    assert len(again) == 3
    assert world.store.drop_failure_notices([first]) == 1
    world.pass_time(31)
    left = world.store.take_failure_notices(["q"], n=9, hold_seconds=30)
    assert sorted(each.died for each in left) == sorted(each.died for each in again)[1:]
    assert world.store.drop_failure_notices([*second, *left]) == 2


def test_dead_letters_are_kept_without_bounds(world: World) -> None:
    """None means no bound."""
    world.configure(dead_letter_seconds=None, dead_letter_count=None, authoritative=True)
    kill_jobs(world, 2)
    world.clock.advance(400 * 86400)
    world.reap()
    assert len(world.dead()) == 2


def test_a_job_that_lost_its_workers_has_a_notice(world: World) -> None:
    """One worker holds it for a while, then any worker may take it, until it is reported."""
    world.max_deliveries = 1
    job = world.publish()
    die(world, world.worker())
    take = world.store.take_failure_notices
    assert take(["other"], n=9, hold_seconds=30) == []
    (letter,) = take(["other", "q"], n=9, hold_seconds=30)
    assert (letter.job.id, letter.reason) == (job, "max_deliveries")
    assert take(["q"], n=9, hold_seconds=30) == []
    world.clock.advance(31)
    assert names(take(["q"], n=9, hold_seconds=30)) == [job]
    assert world.store.drop_failure_notices([letter]) == 1
    world.clock.advance(31)
    assert take(["q"], n=9, hold_seconds=30) == []
    assert world.store.drop_failure_notices([letter]) == 0
    assert names(world.dead()) == [job]


def test_a_rejected_job_has_no_notice(world: World) -> None:
    """The worker that rejects a job knows that it is dead."""
    kill_jobs(world, 1)
    assert world.store.take_failure_notices(["q"], n=9, hold_seconds=30) == []


@pytest.mark.parametrize("how", ["replay", "purge_dead"])
def test_a_notice_goes_with_its_dead_letter(world: World, how: str) -> None:
    """A job that is replayed or dropped is not reported dead."""
    world.max_deliveries = 1
    job = world.publish()
    die(world, world.worker())
    assert getattr(world.store, how)("a", "q", job)
    assert world.store.take_failure_notices(["q"], n=9, hold_seconds=30) == []
