"""Places for web requests: ask for one, wait in turn, and renew those of this process."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import uniform
from uuid import UUID

from fairqueue._background import TIMEOUTS_PER_LEASE, BackgroundLoop, renew_until
from fairqueue._claim.claimer import Owner
from fairqueue._settings import Settings
from fairqueue._stores import replies
from fairqueue._stores.store import StoreBase
from fairqueue._threads import native_event, native_lock, start_native
from fairqueue._types import AdmittedRequest
from fairqueue._validation import check_name
from fairqueue.errors import RequestRejected, StoreUnavailable
from fairqueue.plain import counted

log = logging.getLogger("fairqueue.requests")

LATE_PER_LEASE = 2 / 3  # two renewals have failed, or have not been due
ASKS_PER_LEASE = 4  # at least, of a request that waits: each renews it
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.25
JITTER = (0.5, 1.0)  # so that waiting requests do not ask at the same moment
RETRY_AFTER_SECONDS = (1.0, 2.0)


class Ticket:
    """A place for one request, or a turn to get one; as a context manager it ends with the block.

    ``is_in_flight`` False: it waits, see :meth:`Requests.turns`.
    """

    def __init__(self, requests: Requests, text: str, workspace: str) -> None:
        self._requests, self.text = requests, text
        self.workspace = workspace
        self.is_in_flight = self.has_asked = False

    def end(self) -> None:
        """Free the place, or leave the queue; a second call does nothing.

        It never raises: if the store is not reached, the place is free a lease later.
        """
        self._requests.end(self)

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Requests:
    """Gives out places for web requests; the limits ``requests`` say how many are in flight.

    A place is a lease: this process renews its requests by name, from its own thread, and a place
    that it does not name is free a lease later. Threads may share it; a forked child has its own
    places.
    """

    def __init__(
        self,
        connected: Callable[[], StoreBase],
        settings: Settings,
        before: Callable[[str], None],
    ) -> None:
        self._connected, self._settings, self._before = connected, settings, before
        self._lease_seconds = settings.lease_seconds
        self._renewals = BackgroundLoop("requests", log)
        self._ends = BackgroundLoop("request ends", log)
        self._owner = Owner()
        self._reset()

    def _reset(self) -> None:
        self._name = self._owner.name
        self._numbers = itertools.count(1)
        self._lock = native_lock()
        self._held: dict[str, Ticket] = {}
        self._renewed = time.monotonic()
        """When all places were last renewed."""
        self._stopped: threading.Event | None = None

    def _check_fork(self) -> None:
        """A forked child starts over: its parent's places are not its own."""
        if self._name != self._owner.name:
            self._reset()

    def admit(
        self,
        workspace: str | int | UUID | None = None,
        *,
        wait_seconds: float = 0.0,
        waiting_most: int = 10,
    ) -> Ticket:
        """Return a ticket that is in flight, after up to ``wait_seconds`` of waiting in turn.

        None is the default workspace. Raises RequestRejected if there is no place by then, or at
        once if ``waiting_most`` requests of this workspace wait already, in all processes.
        """
        ticket = self.ticket(workspace)
        try:
            for seconds in self.turns(ticket, wait_seconds, waiting_most):
                time.sleep(seconds)
        except BaseException:
            ticket.end()
            raise
        return ticket

    def ticket(self, workspace: str | int | UUID | None = None) -> Ticket:
        """Return a ticket that has asked for nothing yet."""
        self._check_fork()
        named = self._settings.default_workspace if workspace is None else workspace
        name = check_name("workspace", named)
        ticket = Ticket(self, replies.ticket(self._name, name, next(self._numbers)), name)
        self._held[ticket.text] = ticket
        return ticket

    def _ask(self, ticket: Ticket, waiting_most: int) -> None:
        try:
            store = self._connected()
            self._before(ticket.workspace)
            self._start()
            if self._is_late():
                with suppress(StoreUnavailable):  # of another shard, or this call raises it, too
                    self.renew(store)
            ticket.has_asked = True
            reply = store.admit_request(
                ticket.text, lease_seconds=self._lease_seconds, waiting_most=waiting_most
            )
        except BaseException:  # if the store admits it all the same, that lasts for a lease
            self._forget(ticket)
            raise
        ticket.is_in_flight = reply.state == "in_flight"
        if reply.state == "rejected":
            self._forget(ticket)
            raise _rejected(ticket, reply)
        if ticket.text not in self._held:  # it was ended meanwhile
            store.end_request(ticket.text)

    def turns(self, ticket: Ticket, wait_seconds: float, waiting_most: int) -> Iterator[float]:
        """Ask for its place, and yield the seconds to sleep before each next ask, until it has it.

        Raises RequestRejected, and leaves the queue, when the time is up.
        """
        until, pause = time.monotonic() + wait_seconds, FIRST_PAUSE_SECONDS
        self._ask(ticket, waiting_most if wait_seconds > 0 else 0)
        longest = min(LONGEST_PAUSE_SECONDS, self._lease_seconds / ASKS_PER_LEASE)
        while not ticket.is_in_flight:
            left = until - time.monotonic()
            if left > 0:
                yield min(left, pause * uniform(*JITTER))  # noqa: S311 - no secret
                pause = min(2 * pause, longest)
            self._ask(ticket, waiting_most=1 if left > 0 else 0)

    def end(self, ticket: Ticket) -> None:
        """Free a place; see :meth:`Ticket.end`."""
        self._check_fork()
        if not self._forget(ticket) or not ticket.has_asked:
            return
        try:
            self._connected().end_request(ticket.text)
        except Exception as error:  # noqa: BLE001 - it is logged, and its lease ends
            self._ends.failed(
                "could not report the end of a request of workspace %r, whose place is free in "
                "%g s: %s",
                ticket.workspace,
                self._lease_seconds,
                error,
            )

    def _forget(self, ticket: Ticket) -> bool:
        """Return whether this process had it."""
        return self._held.pop(ticket.text, None) is not None

    def in_flight(self, workspace: str | int | UUID) -> tuple[int, int, int]:
        """Count requests in flight in all, and those of a workspace in flight and waiting."""
        return self._connected().count_requests(check_name("workspace", workspace))

    def _start(self) -> None:
        with self._lock:
            if self._stopped is not None:
                return
            stopped, self._renewed = native_event(), time.monotonic()
            start_native(partial(self._run, stopped), name="fairqueue-requests")
            self._stopped = stopped  # not if that fails: the next request tries again

    def close(self) -> None:
        """Stop renewing: requests in flight count for one more lease."""
        if self._stopped is not None and self._name == self._owner.name:
            self._stopped.set()
            self._stopped = None

    def _run(self, stopped: threading.Event) -> None:
        stores: list[StoreBase] = []

        def renew() -> bool:
            if not stores:
                timeout = self._lease_seconds / TIMEOUTS_PER_LEASE
                stores.append(self._connected().clone(timeout_seconds=timeout))
            self.renew(stores[0])
            return True

        def failed(error: Exception) -> None:
            places = counted(len(self._held), "request")
            self._renewals.failed("could not renew the places of %s, will retry: %s", places, error)

        renew_until(stopped, self._lease_seconds, renew, failed)
        for store in stores:
            store.close()

    def _in_flight(self) -> list[str]:
        return [text for text, ticket in self._held.copy().items() if ticket.is_in_flight]

    def _is_late(self) -> bool:
        """Whether leases may have ended, as in an outage: an admission must not drop them then."""
        return time.monotonic() - self._renewed > self._lease_seconds * LATE_PER_LEASE

    def renew(self, store: StoreBase) -> None:
        """Renew all places, as the thread does; those that the store has lost count again."""
        sent, named = time.monotonic(), self._in_flight()
        if named:
            store.renew_requests(named, lease_seconds=self._lease_seconds)
        self._renewed = sent
        for text in named:
            if text not in self._held:  # it has ended meanwhile, and must not count again
                store.end_request(text)


def _rejected(ticket: Ticket, reply: AdmittedRequest) -> RequestRejected:
    retry_after = uniform(*RETRY_AFTER_SECONDS)  # noqa: S311 - no secret
    return RequestRejected(reply.scope, reply.limit, reply.in_flight, retry_after, ticket.workspace)
