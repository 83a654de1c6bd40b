"""One owner's numbered calls: repeated until answered, so that no lost reply loses a job."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from fairqueue._settings import Settings
from fairqueue._store import Store, Waiter
from fairqueue._types import Claimed, Ending, Finish
from fairqueue.errors import StoreUnavailable

T = TypeVar("T")

LONGEST_REST_SECONDS = 1.0
SHY_FOR_SECONDS = 60.0  # who has turned a job away lets others look first for so long

_NOTHING = Claimed((), frozenset(), 0.0)


@dataclass(frozen=True)
class _Call(Generic[T]):
    """A numbered call: to send it again gives the same answer, and changes nothing."""

    send: Callable[[], T]
    finishes: tuple[Finish, ...] = ()
    act: tuple[str, int] | None = None
    """What it does to which fence, where its caller may come again to ask for the answer."""


def _joined(first: Claimed, then: Claimed) -> Claimed:
    return Claimed(first.leases + then.leases, first.lost | then.lost, then.wait_seconds)


def _rest(waiter: Waiter, seconds: float) -> None:
    """Wait for a wake-up; where no waiting is possible polling is, and a claim tells why."""
    try:
        waiter.wait(seconds)
    except StoreUnavailable:
        time.sleep(min(seconds, LONGEST_REST_SECONDS))


class Claimer:
    """The identity that holds leases. One call at a time; a forked child is a new owner."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self.owner = f"{socket.gethostname()}:{self._pid}:{secrets.token_hex(4)}"
        self._number = 0
        self._lock = threading.RLock()
        self._unanswered: _Call[Any] | None = None
        self._found = _NOTHING
        self._told: frozenset[tuple[int, Ending]] = frozenset()
        self._shy_until = 0.0

    @contextmanager
    def _turn(self) -> Iterator[tuple[tuple[str, int] | None, Any]]:
        """One caller at a time; what was not answered before is asked again, and its answer given.

        A fork begins anew: its parent's calls are its parent's, and so is the lock.
        """
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            call = self._unanswered
            yield (None, None) if call is None else (call.act, self._ask_again(call))

    def _ask_again(self, call: _Call[T]) -> T:
        """Keep what it brings for the next caller, since its own has gone."""
        reply = self._send(call)
        if isinstance(reply, Claimed):
            self._found = _joined(self._found, reply)
        elif isinstance(reply, frozenset):
            self._found = replace(self._found, lost=self._found.lost | reply)
        self._told |= {(f.fence, f.ending) for f in call.finishes}
        return reply

    def _send(self, call: _Call[T]) -> T:
        """Only an answer, be it an error, ends a call; an interrupt or a broken link does not."""
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

    def _numbered(
        self,
        call: Callable[..., T],
        *,
        finishes: tuple[Finish, ...] = (),
        act: tuple[str, int] | None = None,
    ) -> T:
        self._number += 1
        identity = {
            "owner": self.owner,
            "number": self._number,
            "lease_seconds": self._settings.lease_seconds,
        }
        return self._send(_Call(lambda: call(**identity), finishes, act))

    def _untold(self, finishes: Sequence[Finish]) -> tuple[Finish, ...]:
        """Leave out what a repeated call has told already: its caller brings it once more."""
        told, self._told = self._told, frozenset()
        return tuple(f for f in finishes if (f.fence, f.ending) not in told)

    def _found_again(self) -> Claimed:
        """What repeated calls brought. Its leases are as old as the first try: renew them."""
        if self._found.leases:
            sent = time.monotonic()
            lost = self._store.renew(
                [(lease.fence, 0.0) for lease in self._found.leases],
                lease_seconds=self._settings.lease_seconds,
            ).lost
            live = [lease for lease in self._found.leases if lease.fence not in lost]
            leases = tuple(replace(lease, received_monotonic=sent) for lease in live)
            self._found = replace(self._found, leases=leases)
        return self._found

    def claim(self, queues: Sequence[str], n: int, finishes: Sequence[Finish]) -> Claimed:
        """Finish and claim; what a call brought whose reply was lost comes along, and counts."""
        queues, shy = tuple(queues), time.monotonic() < self._shy_until
        with self._turn():
            left, found = self._untold(finishes), self._found_again()
            claimed = self._numbered(
                lambda **identity: self._store.claim(
                    queues=queues,
                    n=max(0, n - len(found.leases)),
                    finishes=left,
                    max_deliveries=self._settings.max_deliveries,
                    shy=shy,
                    **identity,
                ),
                finishes=left,
            )
            self._found = _NOTHING
        return _joined(found, claimed)

    def ack(self, finishes: Sequence[Finish]) -> frozenset[int]:
        """Finish; return which of these fences were lost."""
        own = frozenset(finish.fence for finish in finishes)
        with self._turn():
            left = self._untold(finishes)
            if left:
                lost = self._numbered(
                    lambda **identity: self._store.ack(finishes=left, **identity), finishes=left
                )
                self._found = replace(self._found, lost=self._found.lost | lost)
            known = self._found.lost
            self._found = replace(self._found, lost=known - own)
        return known & own

    def release(self, fence: int, **how: Any) -> bool:
        """Give one job back; False: lost. Who turns it away is shy for a while."""
        if how.get("turned_away"):
            self._shy_until = time.monotonic() + SHY_FOR_SECONDS
        how["max_deliveries"] = self._settings.max_deliveries
        return self._alone(("release", fence), self._store.release, how)

    def reject(self, fence: int, **how: Any) -> bool:
        """Bury one job; False: lost."""
        return self._alone(("reject", fence), self._store.reject, how)

    def _alone(
        self, act: tuple[str, int], call: Callable[..., bool], how: Mapping[str, Any]
    ) -> bool:
        with self._turn() as (answered, reply):
            if answered == act:
                return bool(reply)
            return self._numbered(lambda **identity: call(act[1], **identity, **how), act=act)

    def wait(self, queues: Sequence[str], n: int, seconds: float, claimed: Claimed) -> Claimed:
        """Claim again at every wake-up until something came or time is up."""
        until = time.monotonic() + seconds
        waiter = self._store.waiter(queues)
        try:
            while not claimed.leases and (left := until - time.monotonic()) > 0:
                _rest(waiter, min(left, claimed.wait_seconds))
                claimed = self.claim(queues, n, ())
        finally:
            waiter.close()
        return claimed

    def close(self) -> None:
        """Forget what was unanswered."""
        self._unanswered = None
