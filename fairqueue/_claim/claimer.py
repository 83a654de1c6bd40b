"""Numbered calls of one owner to one shard, repeated until they are answered.

The store answers a repeated number with the first reply. So a call whose reply was lost is sent
again before the next one, and its result is kept for the next caller: no lost reply loses a job.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fairqueue._settings import Settings
from fairqueue._shards.placement import Time
from fairqueue._stores.breaker import CircuitBreaker
from fairqueue._stores.store import Store
from fairqueue._types import Claimed, Ending, Finish, Lease
from fairqueue._utils import this_process
from fairqueue.errors import StoreUnavailable

MOST_AT_ONCE = 16  # jobs that one call claims, and finishes: more would make a long script
GIVEN_UP = {Ending.RELEASE, Ending.REJECT}
YIELD_FIRST_SECONDS = 60.0  # after declining a job, other claimers are woken first for this long


class _Call(NamedTuple):
    """A numbered call: sending it again returns the same reply and changes nothing."""

    send: Callable[[bool], Any]
    """Sends it; True: again. One that did not arrive then only ends, and claims nothing."""
    finishes: tuple[Finish, ...] = ()


@dataclass
class Results:
    """What calls to all shards have brought, and no caller has been told yet."""

    leases: tuple[Lease, ...] = ()
    old: tuple[Lease, ...] = ()
    """Leases of calls that were interrupted or repeated: they are renewed before they are told."""
    lost: frozenset[int] = frozenset()
    finished: frozenset[tuple[int, Ending]] = frozenset()

    def add(
        self, reply: Claimed | frozenset[int], finishes: Iterable[Finish], *, is_old: bool
    ) -> None:
        """Add the reply of a call with these ends."""
        if isinstance(reply, Claimed):
            self.old += reply.leases if is_old else ()
            self.leases += () if is_old else reply.leases
        self.lost |= reply.lost if isinstance(reply, Claimed) else reply
        self.finished |= named(finishes)


def named(finishes: Iterable[Finish]) -> frozenset[tuple[int, Ending]]:
    """Return what tells these ends from others."""
    return frozenset([(finish.fence, finish.ending) for finish in finishes])


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


@dataclass(eq=False)
class Claimer:
    """Makes an owner's numbered calls to one shard, one at a time."""

    number: int
    store: Store
    settings: Settings
    owner: str
    results: Results
    breaker: CircuitBreaker
    pending: list[Finish] = field(default_factory=list)
    """Ends that the shard has not been told yet; their callers need not report them again."""
    unanswered: _Call | None = None
    _calls: int = 0
    _yield_first_until: float = 0.0

    @property
    def owes(self) -> bool:
        """Whether the shard has to be asked, whether or not jobs are wanted."""
        return bool(self.pending or self.unanswered)

    @property
    def rests(self) -> bool:
        """Whether claims skip the shard because its server has just failed."""
        return self.breaker.seconds_left > 0

    def repeat(self) -> None:
        """Send an unanswered call again, whose own caller has given up."""
        if self.unanswered is not None:
            self._send(self.unanswered, is_old=True)

    def yield_first(self) -> None:
        """Wake other claimers first for a while: a job was declined."""
        self._yield_first_until = time.monotonic() + YIELD_FIRST_SECONDS

    def _send(self, call: _Call, *, is_old: bool = False) -> Any:
        """Send a call. A reply or an error of the store answers it; an interrupt does not."""
        self.unanswered = call
        try:
            reply = call.send(is_old)
        except StoreUnavailable:
            raise
        except Exception:  # what is given back in vain goes when its lease ends
            self.unanswered = None
            refused = {each for each in call.finishes if each.ending in GIVEN_UP}
            self.pending = [each for each in self.pending if each not in refused]
            raise
        self.unanswered = None
        self.results.add(reply, call.finishes, is_old=is_old)
        done = named(call.finishes)
        self.pending = [each for each in self.pending if (each.fence, each.ending) not in done]
        return reply

    def _send_numbered(self, call: Callable[..., Any], finishes: tuple[Finish, ...]) -> Any:
        self._calls += 1
        settings = self.settings
        numbered = {
            "owner": self.owner,
            "number": self._calls,
            "lease_seconds": settings.lease_seconds,
            "max_deliveries": settings.max_deliveries,
            "finishes": finishes,
        }
        return self._send(_Call(lambda again: call(again, **numbered), finishes))

    def claim(
        self,
        queues: Sequence[str],
        n: int,
        times: Callable[[], Sequence[Time]] = tuple,
        acks_early: Collection[str] = (),
    ) -> Claimed:
        """Finish what is pending, and claim; return the last of the calls that this takes.

        ``times``: returns what each call tells a shard about others, see :meth:`Store.claim`.
        """
        self._finish(leaves=MOST_AT_ONCE)
        while True:
            some = min(n, MOST_AT_ONCE)
            claimed = self._claim_some(queues, some, tuple(self.pending), times, acks_early)
            n -= len(claimed.leases)
            if n <= 0 or len(claimed.leases) < some:
                return claimed

    def _claim_some(
        self,
        queues: Sequence[str],
        n: int,
        finishes: tuple[Finish, ...],
        times: Callable[[], Sequence[Time]],
        acks_early: Collection[str],
    ) -> Claimed:
        yield_first = time.monotonic() < self._yield_first_until
        claimed: Claimed = self._send_numbered(
            lambda again, **numbered: self.store.claim(
                queues=queues,
                n=0 if again else n,
                yield_first=yield_first,
                times=times() if n > 0 and not again else (),
                acks_early=acks_early,
                **numbered,
            ),
            finishes,
        )
        return claimed

    def finish(self) -> None:
        """Send all pending ends."""
        self.repeat()
        self._finish()

    def _finish(self, *, leaves: int = 0) -> None:
        while len(self.pending) > leaves:
            ends = tuple(self.pending[:MOST_AT_ONCE])
            self._send_numbered(lambda _again, **numbered: self.store.ack(**numbered), ends)
