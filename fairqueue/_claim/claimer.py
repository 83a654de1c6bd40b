"""Numbered calls of one owner, repeated until they are answered, so that no lost reply loses a job.

The store answers a repeated number with the first reply. So a call whose reply was lost is sent
again before the next one, and its result is kept for the next caller.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from fairqueue._settings import Settings
from fairqueue._shards.placement import Time
from fairqueue._stores.store import Store, StoreBase
from fairqueue._stores.waiter import Waiter
from fairqueue._types import Claimed, Ending, Finish, Lease
from fairqueue._utils import this_process
from fairqueue.errors import StoreUnavailable

log = logging.getLogger("fairqueue.claimer")
T = TypeVar("T")

LONGEST_POLL_SECONDS = 1.0
MOST_AT_ONCE = 16  # jobs that one call claims, and finishes: more would make a long script
YIELD_FIRST_SECONDS = 60.0  # after declining a job, other claimers are woken first for this long

_NOTHING = Claimed((), frozenset(), 0.0)


@dataclass(frozen=True)
class _Call(Generic[T]):
    """A numbered call: sending it again returns the same reply and changes nothing."""

    send: Callable[[], T]
    finishes: tuple[Finish, ...] = ()
    action: tuple[str, int] | None = None
    """Operation and fence, if a caller may repeat the call to get the reply."""


def _joined(first: Claimed, then: Claimed) -> Claimed:
    lost = first.lost | then.lost
    return Claimed(first.leases + then.leases, lost, then.wait_seconds, then.heads)


def _wait_or_poll(waiter: Waiter, seconds: float) -> None:
    """Wait for a wake-up; if that fails, sleep briefly, and let the next claim raise the error."""
    try:
        waiter.wait(seconds)
    except StoreUnavailable:
        time.sleep(min(seconds, LONGEST_POLL_SECONDS))


def renewed_leases(
    store: StoreBase, leases: Sequence[Lease], lease_seconds: float
) -> tuple[tuple[Lease, ...], frozenset[int]]:
    """Renew leases between the call that leased them and the one that returns them.

    Returns those that are not lost, and the fences of those that could not be renewed.
    """
    sent = time.monotonic()
    progress = [(lease.fence, 0.0) for lease in leases]
    found = store.renew(progress, owner=leases[0].owner, lease_seconds=lease_seconds)
    live = [lease for lease in leases if lease.fence not in found.lost]
    return tuple(replace(lease, received_monotonic=sent) for lease in live), found.failed


def claim_when_woken(
    waiter: Waiter, claim: Callable[[], Claimed], seconds: float, claimed: Claimed
) -> Claimed:
    """Claim at every wake-up until there is a job or the time is up; then close the waiter."""
    until = time.monotonic() + seconds
    try:
        while not claimed.leases and (left := until - time.monotonic()) > 0:
            _wait_or_poll(waiter, min(left, claimed.wait_seconds))
            claimed = claim()
    finally:
        waiter.close()
    return claimed


class Owner:
    """The identity under which this process holds leases; a forked child has another."""

    def __init__(self) -> None:
        self._pid = -1
        self._name = ""

    @property
    def name(self) -> str:
        """Host, process id and a random part."""
        if self._pid != this_process.pid:
            self._pid = this_process.pid
            self._name = f"{socket.gethostname()}:{self._pid}:{secrets.token_hex(4)}"
        return self._name


class Claimer:
    """Makes an owner's numbered calls to one shard, one at a time; a forked child is a new owner.

    Claimers of several shards may share an ``owner``.
    """

    def __init__(self, store: Store, settings: Settings, owner: Owner | None = None) -> None:
        self._store, self._settings = store, settings
        self._identity = owner or Owner()
        self._reset()

    def _reset(self) -> None:
        self.owner = self._identity.name
        self._number = 0
        self._lock = threading.RLock()
        self._unanswered: _Call[Any] | None = None
        self._recovered = _NOTHING
        self._finished: frozenset[tuple[int, Ending]] = frozenset()
        self._yield_first_until = 0.0

    @contextmanager
    def _exclusive(self) -> Iterator[tuple[tuple[str, int] | None, Any]]:
        """Admit one caller; first repeat an unanswered call, and yield its action and reply.

        A forked child starts over: its parent's calls and its parent's lock are not its own.
        """
        if self.owner != self._identity.name:
            self._reset()
        with self._lock:
            call = self._unanswered
            yield (None, None) if call is None else (call.action, self._repeat(call))

    def _repeat(self, call: _Call[T]) -> T:
        """Send a call again and keep its result for the next caller; its own has given up."""
        reply = self._send(call)
        if isinstance(reply, Claimed):
            self._recovered = _joined(self._recovered, reply)
        elif isinstance(reply, frozenset):
            self._recovered = replace(self._recovered, lost=self._recovered.lost | reply)
        self._finished |= {(f.fence, f.ending) for f in call.finishes}
        return reply

    def _send(self, call: _Call[T]) -> T:
        """Send a call. A reply or an error of the store answers it; an interrupt does not."""
        self._unanswered = call
        try:
            reply = call.send()
        except StoreUnavailable:
            raise
        except Exception:
            self._unanswered = None
            raise
        self._unanswered = None
        return reply

    def _send_numbered(
        self,
        call: Callable[..., T],
        *,
        finishes: tuple[Finish, ...] = (),
        action: tuple[str, int] | None = None,
    ) -> T:
        self._number += 1
        identity = {
            "owner": self.owner,
            "number": self._number,
            "lease_seconds": self._settings.lease_seconds,
        }
        return self._send(_Call(lambda: call(**identity), finishes, action))

    def _unfinished(self, finishes: Sequence[Finish]) -> tuple[Finish, ...]:
        """Leave out ends that a repeated call has reported: its caller reports them again."""
        return tuple(f for f in finishes if (f.fence, f.ending) not in self._finished)

    def _renew_recovered(self) -> Claimed:
        """Return the results of repeated calls, whose leases are as old as the first attempt."""
        if self._recovered.leases:
            seconds = self._settings.lease_seconds
            leases, _ = renewed_leases(self._store, self._recovered.leases, seconds)
            self._recovered = replace(self._recovered, leases=leases)
        return self._recovered

    def claim(
        self,
        queues: Sequence[str],
        n: int,
        finishes: Sequence[Finish],
        times: Callable[[], Sequence[Time]] = tuple,
    ) -> Claimed:
        """Finish and claim; leases recovered from a lost reply are included in ``n``.

        ``times``: returns what each call tells a shard about others, see :meth:`Store.claim`. Many
        jobs take several calls; earlier results are kept if a later call fails.
        """
        with self._exclusive():
            left, recovered = self._unfinished(finishes), self._renew_recovered()
            while len(left) > MOST_AT_ONCE:
                left = self._ack_some(left)
            wanted, found = max(0, n - len(recovered.leases)), 0
            while True:
                some = min(wanted - found, MOST_AT_ONCE)
                claimed = self._claim_some(tuple(queues), some, left, times)
                self._recovered = _joined(self._recovered, claimed)
                found, left = found + len(claimed.leases), ()
                if found >= wanted or len(claimed.leases) < some:
                    break
            whole, self._recovered, self._finished = self._recovered, _NOTHING, frozenset()
        return whole

    def _claim_some(
        self,
        queues: Sequence[str],
        n: int,
        finishes: tuple[Finish, ...],
        times: Callable[[], Sequence[Time]],
    ) -> Claimed:
        """Finish and claim by one call."""
        yield_first = time.monotonic() < self._yield_first_until
        claimed = self._send_numbered(
            lambda **identity: self._store.claim(
                queues=queues,
                n=n,
                finishes=finishes,
                max_deliveries=self._settings.max_deliveries,
                yield_first=yield_first,
                times=times() if n > 0 else (),
                **identity,
            ),
            finishes=finishes,
        )
        self._finished |= {(finish.fence, finish.ending) for finish in finishes}
        return claimed

    def _ack_some(self, finishes: tuple[Finish, ...]) -> tuple[Finish, ...]:
        """Finish as many as one call may; return the others."""
        some = finishes[:MOST_AT_ONCE]
        lost = self._send_numbered(
            lambda **identity: self._store.ack(finishes=some, **identity), finishes=some
        )
        self._recovered = replace(self._recovered, lost=self._recovered.lost | lost)
        self._finished |= {(finish.fence, finish.ending) for finish in some}
        return finishes[MOST_AT_ONCE:]

    def ack(self, finishes: Sequence[Finish]) -> frozenset[int]:
        """Finish; return which of these fences were lost."""
        own = frozenset(finish.fence for finish in finishes)
        with self._exclusive():
            left = self._unfinished(finishes)
            while left:
                left = self._ack_some(left)
            self._finished = frozenset()
            lost = self._recovered.lost
            self._recovered = replace(self._recovered, lost=lost - own)
        return lost & own

    def release(self, fence: int, **options: Any) -> bool:
        """Give one job back; False: its lease was lost. Declining makes this claimer yield."""
        if options.get("declined"):
            self._yield_first_until = time.monotonic() + YIELD_FIRST_SECONDS
        options["max_deliveries"] = self._settings.max_deliveries
        return self._end(("release", fence), self._store.release, options)

    def reject(self, fence: int, **options: Any) -> bool:
        """Move one job to the dead letters; False: its lease was lost."""
        return self._end(("reject", fence), self._store.reject, options)

    def _end(
        self, action: tuple[str, int], call: Callable[..., bool], options: Mapping[str, Any]
    ) -> bool:
        with self._exclusive() as (repeated, reply):
            if repeated == action:
                return bool(reply)
            return self._send_numbered(
                lambda **identity: call(action[1], **identity, **options), action=action
            )

    def forget(self) -> None:
        """Forget an unanswered call."""
        self._unanswered = None
