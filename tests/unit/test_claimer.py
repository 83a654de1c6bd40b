"""The claimer numbers its calls and repeats unanswered ones, so that no job is lost."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueueError, Job, Settings, StoreUnavailable
from fairqueue._claim.claimers import Claimers
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.sharded import sharded
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Ending, Finish, Waiter, rejected, released
from fairqueue.testing import ManualClock

LEASE_SECONDS = 30.0


class Flaky(Store):
    """Loses the reply to its next call after, or instead of, carrying it out."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(MemoryEngine(), clock=clock)
        self.failure: BaseException | None = None
        self.before = False
        self.calls: list[str] = []

    def fill(self, names: Iterable[str]) -> None:
        for name in names:
            self.publish(Job(name, "w", "q", "t", b""), Admission())

    def lose_reply(self, failure: BaseException | None = None, *, before: bool = False) -> None:
        self.failure, self.before = failure or StoreUnavailable("gone"), before

    def _maybe(self, name: str, call: Callable[..., Any], **values: Any) -> Any:
        failure, self.failure = self.failure, None
        self.calls.append(name)
        if failure is not None and self.before:
            raise failure
        reply = call(**values)
        if failure is not None:
            raise failure
        return reply

    def claim(self, **values: Any) -> Any:
        return self._maybe("claim", super().claim, **values)

    def ack(self, **values: Any) -> Any:
        return self._maybe("ack", super().ack, **values)

    def renew(self, *args: Any, **values: Any) -> Any:
        return self._maybe("renew", lambda **v: super(Flaky, self).renew(*args, **v), **values)


@pytest.fixture
def store(clock: ManualClock) -> Flaky:
    """A store with three jobs."""
    store = Flaky(clock)
    store.fill("abc")
    return store


@pytest.fixture
def claimer(store: Flaky) -> Claimers:
    """A claimer of it."""
    return Claimers(sharded(store), Settings(lease_seconds=LEASE_SECONDS))


def _lose_a_claim(store: Flaky, claimer: Claimers, *, before: bool = False) -> None:
    """Claim one job, whose reply is lost."""
    store.lose_reply(before=before)
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [])


def _ids(claimed: Any) -> list[str]:
    return [lease.job.id for lease in claimed.leases]


@pytest.mark.parametrize("before", [False, True])
def test_a_claim_whose_reply_was_lost_is_repeated(
    store: Flaky, claimer: Claimers, before: bool
) -> None:
    """The next claim returns what an unanswered one leased, and counts it towards its n."""
    _lose_a_claim(store, claimer, before=before)
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    assert _ids(claimer.claim(["q"], 2, [])) == ["b", "c"]
    assert store.snapshot()[0].running == 3


def test_a_recovered_lease_is_renewed(store: Flaky, claimer: Claimers, clock: ManualClock) -> None:
    """It is as old as the first attempt, so it is renewed before it is returned."""
    _lose_a_claim(store, claimer)
    clock.advance(10)
    claimer.claim(["q"], 0, [])
    clock.advance(10)
    store.reap(max_deliveries=None)
    clock.advance(10)
    store.reap(max_deliveries=None)
    assert store.snapshot()[0].running == 1


def test_a_lease_that_expired_meanwhile_is_not_returned(
    store: Flaky, claimer: Claimers, clock: ManualClock
) -> None:
    """A job reaped before the claim was repeated belongs to the next claimer."""
    _lose_a_claim(store, claimer)
    for _ in range(4):
        clock.advance(10)
        store.reap(max_deliveries=None)
    other = Claimers(sharded(store), Settings(lease_seconds=LEASE_SECONDS))
    assert _ids(other.claim(["q"], 1, [])) == ["a"]
    assert _ids(claimer.claim(["q"], 3, [])) == ["b", "c"]


def test_an_unanswered_finish_counts_once(store: Flaky, claimer: Claimers) -> None:
    """Reporting the same ending again after an outage succeeds; a third time it is lost."""
    (lease,) = claimer.claim(["q"], 1, []).leases
    finish = Finish(lease.fence, seconds=1.0)
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.ack([finish])
    assert claimer.ack([finish]) == frozenset()
    assert claimer.ack([finish]) == {lease.fence}


def test_an_early_and_a_late_ack_are_two_endings(store: Flaky, claimer: Claimers) -> None:
    """A repeated early ack does not swallow the ack that follows."""
    (lease,) = claimer.claim(["q"], 1, []).leases
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.ack([Finish(lease.fence, Ending.ACK_EARLY)])
    assert claimer.ack([Finish(lease.fence)]) == frozenset()
    assert store.snapshot()[0].running == 0


def test_a_loss_is_reported_with_its_own_fence(
    store: Flaky, claimer: Claimers, clock: ManualClock
) -> None:
    """The loss found by an unanswered claim is not reported by another job's ack."""
    first, second = claimer.claim(["q"], 2, []).leases
    for _ in range(4):
        clock.advance(10)
        kept = [(second.fence, 0.0)]
        store.renew(kept, owner=claimer.owner, lease_seconds=LEASE_SECONDS)
        store.reap(max_deliveries=None)
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 0, [Finish(first.fence)])
    assert claimer.ack([Finish(second.fence)]) == frozenset()
    assert claimer.claim(["q"], 0, [Finish(first.fence)]).lost == {first.fence}


def test_an_end_that_another_report_brought_along_is_not_lost(
    store: Flaky, claimer: Claimers
) -> None:
    """As with a thread that reports ends while another claims: each reports its own again."""
    first, second = claimer.claim(["q"], 2, []).leases
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [Finish(first.fence)])
    assert claimer.ack([Finish(second.fence)], keeps=True) == frozenset()
    assert claimer.claim(["q"], 1, [Finish(first.fence)]).lost == frozenset()
    assert claimer.ack([Finish(first.fence)]) == {first.fence}


@pytest.mark.parametrize("act", [released, partial(rejected, reason="bad")])
def test_an_unanswered_release_is_not_a_loss(
    store: Flaky, claimer: Claimers, act: Callable[[int], Finish]
) -> None:
    """Called again, it returns the lost reply, not that of a second attempt."""
    (lease,) = claimer.claim(["q"], 1, []).leases
    given_up = [act(lease.fence)]
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.ack(given_up, keeps=True)
    assert claimer.ack(given_up, keeps=True) == frozenset()
    assert claimer.ack(given_up, keeps=True) == {lease.fence}


def test_an_error_of_the_store_is_an_answer(store: Flaky, claimer: Claimers) -> None:
    """A call that the store rejected is not sent again."""
    store.lose_reply(FairQueueError("no"), before=True)
    with pytest.raises(FairQueueError):
        claimer.claim(["q"], 1, [])
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    assert store.calls == ["claim", "claim"]


def test_a_fork_is_another_owner(store: Flaky, claimer: Claimers) -> None:
    """A child inherits neither its parent's identity nor its unanswered calls."""
    _lose_a_claim(store, claimer)
    parent = claimer.owner
    claimer._owner._pid = os.getpid() + 1  # as a child finds it
    assert _ids(claimer.claim(["q"], 1, [])) == ["b"]
    assert claimer.owner != parent


def test_a_fork_while_another_thread_claims(store: Flaky, claimer: Claimers) -> None:
    """A lock held by a thread of the parent at the fork does not block the child."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with claimer._exclusive():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(10)
    claimer._owner._pid = os.getpid() + 1  # as a child finds it
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    leave.set()
    thread.join()


class DeadWaiter(Waiter):
    """A waiter that cannot connect."""

    def _away(self, *_: object) -> Any:
        raise StoreUnavailable("no connection left")

    fileno = collect = disarm = _away
    arm = wait = _away  # type: ignore[assignment]

    def close(self) -> None:
        pass


def test_a_claimer_that_cannot_wait_polls(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter's broken connection neither ends a blocking claim nor makes it spin."""
    store, rests = Flaky(clock), []
    claimer = Claimers(whole := sharded(store), Settings(lease_seconds=LEASE_SECONDS))
    monkeypatch.setattr(whole, "waiter", lambda queues: DeadWaiter())

    def rest(seconds: float) -> None:
        rests.append(seconds)
        store.fill(["late"])

    monkeypatch.setattr("fairqueue._claim.claimers.time.sleep", rest)
    claimed = claimer.wait(["q"], 1, 5.0, claimer.claim(["q"], 1, []))
    assert _ids(claimed) == ["late"]
    assert len(rests) == 1
    assert 0.5 < rests[0] <= 1.0


def test_many_finishes_and_claims_take_several_calls(store: Flaky, claimer: Claimers) -> None:
    """No call claims or finishes more than a few, and the caller sees one result."""
    store.fill(f"more{n}" for n in range(47))
    first = claimer.claim(["q"], 40, ())
    assert len(first.leases) == 40
    assert store.calls == ["claim"] * 3
    store.calls.clear()
    rest = claimer.claim(["q"], 40, [Finish(lease.fence) for lease in first.leases])
    assert (len(rest.leases), store.calls) == (10, ["ack", "ack", "claim"])
    assert store.depth("q", running=True) == 10
    assert rest.wait_seconds > 0
    assert claimer.ack([Finish(lease.fence) for lease in rest.leases]) == frozenset()
    assert store.depth("q", running=True) == 0


@pytest.mark.parametrize("lost_call", [0, 1, 2])
def test_a_lost_reply_between_calls_loses_nothing(
    store: Flaky, claimer: Claimers, lost_call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What earlier calls of one claim brought is returned by the next claim, once."""
    store.fill(f"more{n}" for n in range(47))
    send, calls = store.claim, iter(range(99))

    def lose_one(**values: Any) -> Any:
        if next(calls) == lost_call:
            store.lose_reply()
        return send(**values)

    monkeypatch.setattr(store, "claim", lose_one)
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 40, ())
    found = claimer.claim(["q"], 50, ())
    assert len(set(_ids(found))) == 50 == len(found.leases)


def test_what_was_finished_before_a_lost_reply_is_not_finished_again(
    store: Flaky, claimer: Claimers
) -> None:
    """The caller reports all of its finishes again; those that were done are not lost."""
    store.fill(f"more{n}" for n in range(47))
    leases = claimer.claim(["q"], 50, ()).leases
    finishes = [Finish(lease.fence) for lease in leases]
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 0, finishes)
    assert claimer.claim(["q"], 0, finishes).lost == frozenset()
    assert store.depth("q", running=True) == 0


def test_an_owner_has_a_heartbeat(store: Flaky, claimer: Claimers) -> None:
    """With its node's name and its software: at its first claim, and then every half minute."""
    told: list[tuple[str, str, str]] = []
    store.heartbeat = lambda *about, **takes: told.append(about)  # type: ignore[method-assign]
    claimer.presence.describe("celery@one", software="celery/5")
    claimer.claim(["q"], 0, [])
    assert told == []
    claimer.claim(["q"], 1, [])
    claimer.claim(["q"], 1, [])
    ((owner, node, software),) = told
    assert (owner, node) == (claimer.owner, "celery@one")
    assert re.fullmatch(r"fairqueue/\S+ celery/5", software)


def test_other_queues_are_told_at_once(store: Flaky, claimer: Claimers) -> None:
    """With the claim that names a new one; of an owner that says so also with a renewal."""
    told: list[dict[str, object]] = []
    store.heartbeat = lambda *about, **takes: told.append(takes)  # type: ignore[method-assign]
    for queues in (["q"], ["q"], ["r", "q"], ["r"]):
        claimer.claim(queues, 1, [])
    assert [each["queues"] for each in told] == [["q"], ["q", "r"]]
    taken = ["q"]
    claimer.presence.describe("celery@one", software="c/5", queues=lambda: taken, slots=lambda: 4)
    claimer.claim(["q"], 1, [])
    taken.append("s")
    claimer.renew(sharded(store), (), claimer.owner)
    assert [(each["queues"], each["slots"]) for each in told[2:]] == [(taken, 4)]
    claimer.presence.restart()
    claimer.renew(sharded(store), (), "another")
    assert len(told) == 3
    claimer.renew(sharded(store), (), claimer.owner)
    assert len(told) == 4


def test_an_owner_says_that_it_stops(store: Flaky, claimer: Claimers) -> None:
    """Once, if it has claimed; a renewal that comes late does not bring it back, a claim does.

    It names the queues that it took: it takes none by then.
    """
    told: list[tuple[object, object]] = []
    taken = ["q"]
    claimer.presence.describe("celery@one", queues=lambda: list(taken))
    store.heartbeat = lambda *about, **takes: told.append(  # type: ignore[method-assign]
        (takes["lease_seconds"], takes["queues"])
    )
    claimer.close()
    claimer.claim(["q"], 1, [])
    taken.clear()
    claimer.close()
    claimer.close()
    claimer.renew(sharded(store), (), claimer.owner)
    assert told == [(LEASE_SECONDS, ["q"]), (0, ["q"])]
    claimer.claim(["q"], 1, [])
    assert told[2:] == [(LEASE_SECONDS, [])]


def test_a_refused_heartbeat_stops_no_claim(
    store: Flaky, claimer: Claimers, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says that operators do not see this owner, and why."""

    def refuse(*about: str, **takes: object) -> None:
        raise ConfigurationError("no ZADD for this user")

    store.heartbeat = refuse  # type: ignore[method-assign]
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    assert f"does not list owner {claimer.owner}: no ZADD for this user" in caplog.text


def test_a_heartbeat_that_was_lost_comes_with_the_next_claim(
    store: Flaky, claimer: Claimers
) -> None:
    """Not half a minute later: until then operators would take this owner for dead."""
    told: list[object] = []

    def lose(*about: str, **takes: object) -> None:
        told.append(about)
        if len(told) == 1:
            raise StoreUnavailable("gone")

    store.heartbeat = lose  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [])
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    assert len(told) == 2


def test_a_job_whose_claim_was_not_answered_goes_back_when_its_owner_stops(
    store: Flaky, claimer: Claimers
) -> None:
    """Also if the claim has acked it early: it did not run, and no lease has to end first."""
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [], acks_early=["t"])
    claimer.close()
    row = store.snapshot()[0]
    assert (row.waiting, row.running, row.lost) == (3, 0, 0)
