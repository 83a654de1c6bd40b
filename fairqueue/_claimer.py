"""One owner's numbered calls: repeated until answered, so that no lost reply loses a job."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from fairqueue._settings import Settings
from fairqueue._store import Store
from fairqueue._types import Claimed, Finish
from fairqueue.errors import StoreUnavailable

T = TypeVar("T")

_NOTHING = Claimed((), frozenset(), 0.0)


@dataclass(frozen=True)
class _Call(Generic[T]):
    send: Callable[[], T]
    finishes: tuple[Finish, ...]


def _joined(first: Claimed, then: Claimed) -> Claimed:
    return Claimed(first.leases + then.leases, first.lost | then.lost, then.wait_seconds)


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
        self._replayed = _NOTHING
        self._told: frozenset[Finish] = frozenset()

    def _numbered(self, call: Callable[..., T], finishes: Sequence[Finish] = ()) -> T:
        """Send one numbered call; one that stayed unanswered is repeated before the next."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            self._number += 1
            identity = {
                "owner": self.owner,
                "number": self._number,
                "lease_seconds": self._settings.lease_seconds,
            }
            return self._send(_Call(lambda: call(**identity), tuple(finishes)))

    def _send(self, call: _Call[T]) -> T:
        self._unanswered = call
        try:
            reply = call.send()
        except StoreUnavailable:
            raise
        except BaseException:
            self._unanswered = None
            raise
        self._unanswered = None
        return reply

    def _answer_first(self) -> None:
        """Repeat what was not answered; its leases and losses come with the next reply."""
        if self._pid != os.getpid() or self._unanswered is None:
            return
        call = self._unanswered
        reply = self._send(call)
        if isinstance(reply, Claimed):
            self._replayed = _joined(self._replayed, reply)
        elif isinstance(reply, frozenset):
            self._replayed = _joined(self._replayed, Claimed((), reply, 0.0))
        self._told |= frozenset(call.finishes)

    def _untold(self, finishes: Sequence[Finish]) -> tuple[Finish, ...]:
        """Leave out what a repeated call has told already: its caller brings it once more."""
        told, self._told = {(f.fence, f.ending) for f in self._told}, frozenset()
        return tuple(f for f in finishes if (f.fence, f.ending) not in told)

    def claim(self, queues: Sequence[str], n: int, finishes: Sequence[Finish]) -> Claimed:
        """Finish and claim; what a call brought whose reply was lost comes along."""
        queues = tuple(queues)
        with self._lock:
            self._answer_first()
            left = self._untold(finishes)
            claimed = self._numbered(
                lambda **identity: self._store.claim(
                    queues=queues,
                    n=n,
                    finishes=left,
                    max_deliveries=self._settings.max_deliveries,
                    **identity,
                ),
                left,
            )
            claimed, self._replayed = _joined(self._replayed, claimed), _NOTHING
        return claimed

    def ack(self, finishes: Sequence[Finish]) -> frozenset[int]:
        """Finish; return the fences that were lost."""
        with self._lock:
            self._answer_first()
            left = self._untold(finishes)
            lost = self._numbered(
                lambda **identity: self._store.ack(finishes=left, **identity), left
            )
            known, self._replayed = self._replayed, replace(self._replayed, lost=frozenset())
        return lost | known.lost

    def release(self, fence: int, **how: Any) -> bool:
        """Give one job back; False: lost."""
        return self._alone(lambda **identity: self._store.release(fence, **identity, **how))

    def reject(self, fence: int, **how: Any) -> bool:
        """Bury one job; False: lost."""
        return self._alone(lambda **identity: self._store.reject(fence, **identity, **how))

    def _alone(self, call: Callable[..., bool]) -> bool:
        with self._lock:
            self._answer_first()
            return self._numbered(call)

    def wait(self, queues: Sequence[str], n: int, seconds: float, claimed: Claimed) -> Claimed:
        """Claim again at every wake-up until something came or time is up."""
        until = time.monotonic() + seconds
        waiter = self._store.waiter(queues)
        try:
            while not claimed.leases and (left := until - time.monotonic()) > 0:
                waiter.wait(min(left, claimed.wait_seconds))
                claimed = self.claim(queues, n, ())
        finally:
            waiter.close()
        return claimed

    def close(self) -> None:
        """Forget what was unanswered."""
        self._unanswered = None
