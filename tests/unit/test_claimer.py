"""The claimer numbers its calls and repeats what was not answered, so that nothing is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import (
    Admission,
    Ending,
    FairQueueError,
    Finish,
    Job,
    Settings,
    StoreUnavailable,
    Waiter,
)
from fairqueue._claimer import Claimer
from fairqueue._stores.memory import MemoryStore
from fairqueue.testing import ManualClock

LEASE_SECONDS = 30.0


class Flaky(MemoryStore):
    """Loses the reply to its next call after, or instead of, carrying it out."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.failure: BaseException | None = None
        self.before = False
        self.calls: list[str] = []

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

    def release(self, fence: int, **values: Any) -> Any:
        return self._maybe("release", lambda **v: super(Flaky, self).release(fence, **v), **values)

    def reject(self, fence: int, **values: Any) -> Any:
        return self._maybe("reject", lambda **v: super(Flaky, self).reject(fence, **v), **values)

    def renew(self, *args: Any, **values: Any) -> Any:
        return self._maybe("renew", lambda **v: super(Flaky, self).renew(*args, **v), **values)


@pytest.fixture
def store(clock: ManualClock) -> Flaky:
    """A store with three jobs."""
    store = Flaky(clock)
    for name in "abc":
        store.publish(Job(name, "w", "q", "t", b""), Admission())
    return store


@pytest.fixture
def claimer(store: Flaky) -> Claimer:
    """A claimer of it."""
    return Claimer(store, Settings(lease_seconds=LEASE_SECONDS))


def _ids(claimed: Any) -> list[str]:
    return [lease.job.id for lease in claimed.leases]


@pytest.mark.parametrize("before", [False, True])
def test_a_claim_whose_reply_was_lost_is_repeated(
    store: Flaky, claimer: Claimer, before: bool
) -> None:
    """What an unanswered claim leased comes with the next one, and counts towards its n."""
    store.lose_reply(before=before)
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [])
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    assert _ids(claimer.claim(["q"], 2, [])) == ["b", "c"]
    assert store.snapshot().workspaces[0].running == 3


def test_a_lease_found_again_is_renewed(store: Flaky, claimer: Claimer, clock: ManualClock) -> None:
    """It is as old as the first try; so it gets a whole lease when it is handed out."""
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [])
    clock.advance(10)
    claimer.claim(["q"], 0, [])
    clock.advance(10)
    store.reap(lease_seconds=LEASE_SECONDS, max_deliveries=None)
    clock.advance(10)
    store.reap(lease_seconds=LEASE_SECONDS, max_deliveries=None)
    assert store.snapshot().workspaces[0].running == 1


def test_a_lease_that_passed_meanwhile_is_not_handed_out(
    store: Flaky, claimer: Claimer, clock: ManualClock
) -> None:
    """What was reaped before the claim was repeated belongs to whoever claims it now."""
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [])
    for _ in range(4):
        clock.advance(10)
        store.reap(lease_seconds=LEASE_SECONDS, max_deliveries=None)
    other = Claimer(store, Settings(lease_seconds=LEASE_SECONDS))
    assert _ids(other.claim(["q"], 1, [])) == ["a"]
    assert _ids(claimer.claim(["q"], 3, [])) == ["b", "c"]


def test_found_leases_outlast_a_second_outage(store: Flaky, claimer: Claimer) -> None:
    """When the renewal of what was found fails too, it is found again later."""
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [])
    with pytest.raises(StoreUnavailable):
        _with_renewal_lost(store, claimer)
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]


def _with_renewal_lost(store: Flaky, claimer: Claimer) -> None:
    renew = store.renew

    def lost(*args: Any, **values: Any) -> Any:
        store.lose_reply()
        store.renew = renew  # type: ignore[method-assign]
        return renew(*args, **values)

    store.renew = lost  # type: ignore[method-assign]
    claimer.claim(["q"], 1, [])


def test_an_unanswered_finish_counts_once(store: Flaky, claimer: Claimer) -> None:
    """Who brings the same ending again after an outage finds it done, not lost."""
    (lease,) = claimer.claim(["q"], 1, []).leases
    finish = Finish(lease.fence, seconds=1.0)
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.ack([finish])
    assert claimer.ack([finish]) == frozenset()
    assert claimer.ack([finish]) == {lease.fence}


def test_an_early_and_a_late_ack_are_two_endings(store: Flaky, claimer: Claimer) -> None:
    """An early ack that was repeated does not hide the ack that follows."""
    (lease,) = claimer.claim(["q"], 1, []).leases
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.ack([Finish(lease.fence, Ending.ACK_EARLY)])
    assert claimer.ack([Finish(lease.fence)]) == frozenset()
    assert store.snapshot().workspaces[0].running == 0


def test_a_loss_is_told_to_who_asks_for_it(
    store: Flaky, claimer: Claimer, clock: ManualClock
) -> None:
    """A fence that an unanswered claim found lost is not blamed on another job's ack."""
    first, second = claimer.claim(["q"], 2, []).leases
    store.release(
        first.fence,
        owner="thief",
        number=1,
        lease_seconds=LEASE_SECONDS,
        delay_seconds=0.0,
        counted=False,
        seconds=0.0,
        max_deliveries=None,
    )
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 0, [Finish(first.fence)])
    assert claimer.ack([Finish(second.fence)]) == frozenset()
    assert claimer.claim(["q"], 0, [Finish(first.fence)]).lost == {first.fence}


@pytest.mark.parametrize("act", ["release", "reject"])
def test_an_unanswered_release_is_not_taken_for_a_loss(
    store: Flaky, claimer: Claimer, act: str
) -> None:
    """Asked again, it gives the answer that was lost, not that of a second try."""
    (lease,) = claimer.claim(["q"], 1, []).leases
    how: dict[str, Any] = {"delay_seconds": 0.0, "counted": False, "seconds": 0.0}
    if act == "reject":
        how = {"reason": "bad", "seconds": 0.0}
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        getattr(claimer, act)(lease.fence, **how)
    assert getattr(claimer, act)(lease.fence, **how) is True
    assert getattr(claimer, act)(lease.fence, **how) is False


def test_an_interrupt_keeps_the_call(store: Flaky, claimer: Claimer) -> None:
    """Ctrl-C while a claim is under way leaves no job leased to nobody."""
    store.lose_reply(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        claimer.claim(["q"], 1, [])
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]


def test_a_refusal_is_an_answer(store: Flaky, claimer: Claimer) -> None:
    """A call that was refused for good is not sent again before the next."""
    store.lose_reply(FairQueueError("no"), before=True)
    with pytest.raises(FairQueueError):
        claimer.claim(["q"], 1, [])
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    assert store.calls == ["claim", "claim"]


def test_a_fork_is_another_owner(store: Flaky, claimer: Claimer) -> None:
    """A child takes neither its parent's name, nor its numbers, nor its unanswered calls."""
    store.lose_reply()
    with pytest.raises(StoreUnavailable):
        claimer.claim(["q"], 1, [])
    parent = claimer.owner
    claimer._pid = os.getpid() + 1  # as a child finds it
    assert _ids(claimer.claim(["q"], 1, [])) == ["b"]
    assert claimer.owner != parent


def test_a_fork_while_another_thread_claims(store: Flaky, claimer: Claimer) -> None:
    """A lock that a thread of the parent held at the fork does not block the child."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with claimer._turn():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(10)
    claimer._pid = os.getpid() + 1  # as a child finds it
    assert _ids(claimer.claim(["q"], 1, [])) == ["a"]
    leave.set()
    thread.join()


class DeadWaiter(Waiter):
    """A waiter whose connection is always refused."""

    def arm(self, seconds: float) -> None:
        raise StoreUnavailable("no connection left")

    def fileno(self) -> int:
        raise StoreUnavailable("no connection left")

    def collect(self) -> bool:
        raise StoreUnavailable("no connection left")

    def wait(self, seconds: float) -> bool:
        raise StoreUnavailable("no connection left")

    def close(self) -> None:
        pass


def test_where_no_wait_is_possible_it_polls(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter's broken link neither ends a blocking claim nor makes it spin."""
    store, rests = Flaky(clock), []
    claimer = Claimer(store, Settings(lease_seconds=LEASE_SECONDS))
    monkeypatch.setattr(store, "waiter", lambda queues: DeadWaiter())

    def rest(seconds: float) -> None:
        rests.append(seconds)
        store.publish(Job("late", "w", "q", "t", b""), Admission())

    monkeypatch.setattr("fairqueue._claimer.time.sleep", rest)
    claimed = claimer.wait(["q"], 1, 5.0, claimer.claim(["q"], 1, []))
    assert _ids(claimed) == ["late"]
    assert len(rests) == 1
    assert 0.5 < rests[0] <= 1.0


def test_who_turned_a_job_away_lets_others_look_first(
    store: Flaky, claimer: Claimer, clock: ManualClock
) -> None:
    """Told with each of its claims: an idle other one is the first to look when it is due."""
    other = Claimer(store, Settings(lease_seconds=LEASE_SECONDS))
    first, *rest = claimer.claim(["q"], 3, []).leases
    how = {"counted": False, "seconds": 0.0}
    assert claimer.release(first.fence, delay_seconds=2.0, turned_away=True, **how)

    assert claimer.claim(["q"], 1, []).wait_seconds == pytest.approx(2.1)
    assert other.claim(["q"], 1, []).wait_seconds == pytest.approx(2.0)
    assert claimer.claim(["q"], 1, []).wait_seconds > 2.2

    clock.advance(2.0)
    assert _ids(other.claim(["q"], 1, [])) == ["a"]
    assert len(rest) == 2
