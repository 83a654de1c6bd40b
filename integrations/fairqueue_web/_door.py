"""The front door: finds a request's workspace, and asks for a place for it."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar

from fairqueue import ConfigurationError, FairQueue, StoreUnavailable
from fairqueue.adapters import Throttle
from fairqueue_web._answers import BadWorkspace
from fairqueue_web._sources import Source, View, name_of, one_slash, readers
from fairqueue_web._visit import Visit

log = logging.getLogger("fairqueue_web")

AWAY_SECONDS = 1.0
THREADS = 8

T = TypeVar("T")


class _Unasked(Exception):
    """The request is served without a place."""


class FrontDoor:
    """What the requests of an application have in common; threads share it.

    ``workspace_from`` says where a request names its workspace, see the middleware of your
    framework; the first answer wins. A request without one has the default workspace or, with
    ``require_workspace``, is answered with 400.

    With a ``queue`` (a FairQueue, or a URL and settings) each request needs a place: the settings
    ``total_requests`` and ``workspace_requests``, and the limit ``requests`` of a workspace, say
    how many are in flight. One without a place waits up to ``wait_seconds`` for its turn, as one
    of at most ``waiting_most`` of its workspace, and is then rejected. While the store is away, or
    refuses a process to which it has given a place before, requests are served without asking, and
    a warning is logged; no call takes longer than ``timeout_seconds``. With ``limit_requests``
    False no request needs a place.

    ``exempt`` are prefixes of paths that are left alone, such as ``/healthz``.
    """

    def __init__(
        self,
        queue: FairQueue | str | None = None,
        *,
        workspace_from: Source | Sequence[Source] = (),
        require_workspace: bool = False,
        limit_requests: bool = True,
        wait_seconds: float = 0.0,
        waiting_most: int = 10,
        exempt: Sequence[str] = (),
        timeout_seconds: float = 1.0,
        **settings: Any,
    ) -> None:
        if isinstance(queue, str):
            queue = FairQueue(queue, **settings)
        elif settings:
            raise ConfigurationError(f"{', '.join(settings)}: settings are for a queue's URL")
        self._readers = readers(workspace_from)
        self._require_workspace = require_workspace
        self._wait_seconds = wait_seconds
        self._waiting_most = waiting_most
        self._exempt = (exempt,) if isinstance(exempt, str) else tuple(exempt)
        self._queue: FairQueue | None = None
        if queue is not None and limit_requests:
            self._queue = queue.clone(timeout_seconds=timeout_seconds)
        self._away_until, self._has_admitted = 0.0, False
        self._log_throttle = Throttle()
        self._pools = dict[str, ThreadPoolExecutor]()
        """Ends have one of their own: no request waits for them."""
        self._pid = 0

    def is_exempt(self, path: str) -> bool:
        """Whether requests of this path are left alone."""
        return one_slash(path).startswith(self._exempt) if self._exempt else False

    def workspace_of(self, view: View) -> str | None:
        """Return the workspace that a request names. Raises BadWorkspace."""
        return self._known(
            next(filter(None, (name_of(read(view)) for read in self._readers)), None)
        )

    async def find_workspace(self, view: View) -> str | None:
        """Return the same, where functions may be asynchronous."""
        for read in self._readers:
            value = read(view)
            name = name_of(await value if isawaitable(value) else value)
            if name is not None:
                return name
        return self._known(None)

    def _known(self, name: str | None) -> str | None:
        if name is None and self._require_workspace:
            raise BadWorkspace.missing()
        return name

    def enter(self, view: View) -> Visit:
        """Let a request in, after waiting for its place.

        Raises BadWorkspace and RequestRejected.
        """
        workspace = self.workspace_of(view)
        if self._queue is None or self._is_away:
            return Visit(workspace)
        try:
            ticket = self._queue.requests.admit(
                workspace, wait_seconds=self._wait_seconds, waiting_most=self._waiting_most
            )
        except (StoreUnavailable, ConfigurationError) as error:
            self._note_away(error)
            return Visit(workspace)
        self._has_admitted = True
        return Visit(workspace, ticket.end)

    @property
    def _is_away(self) -> bool:
        return time.monotonic() < self._away_until

    def _note_away(self, error: Exception) -> None:
        """Serve requests without asking for a moment: each call might wait for its timeout.

        A mistake that no request has passed yet, such as a wrong password, is raised.
        """
        if isinstance(error, ConfigurationError) and not self._has_admitted:
            raise error
        if not self._is_away:
            self._away_until = time.monotonic() + AWAY_SECONDS
        if self._log_throttle.passes():
            log.warning("requests are served without asking for a place: %s", error)

    async def visit(self, workspace: str | None) -> Visit:
        """Let in a request of this workspace without blocking the event loop."""
        if self._queue is None or self._is_away:
            return Visit(workspace)
        requests = self._queue.requests
        ticket = requests.ticket(workspace)
        turns = requests.turns(ticket, self._wait_seconds, self._waiting_most)
        try:
            while not ticket.is_in_flight:
                seconds = await asyncio.wrap_future(self._submit("ask", self._ask, turns))
                if seconds is not None:
                    await asyncio.sleep(seconds)
        except BaseException as error:
            self._submit("end", ticket.end)
            if isinstance(error, _Unasked):
                return Visit(workspace)
            raise
        self._has_admitted = True
        return Visit(workspace, partial(self._submit, "end", ticket.end))

    def _ask(self, turns: Iterator[float]) -> float | None:
        """Ask, unless the store was found away while this call waited for a thread."""
        try:
            if not self._is_away:
                return next(turns, None)
        except (StoreUnavailable, ConfigurationError) as error:
            self._note_away(error)  # at once: this thread has its next call before the loop knows
        raise _Unasked

    def _submit(self, name: str, call: Callable[..., T], *args: Any) -> Future[T]:
        if self._pid != os.getpid():  # a fork has none of its threads
            self._pools, self._pid = {}, os.getpid()
        pool = self._pools.get(name)
        if pool is None:
            new = ThreadPoolExecutor(THREADS, f"fairqueue-door-{name}")
            pool = self._pools.setdefault(name, new)
        try:
            return pool.submit(call, *args)
        except RuntimeError:
            if self._pools.get(name) is pool:
                raise  # the interpreter ends
            return self._submit(name, call, *args)  # another thread has just closed that one

    def close(self) -> None:
        """Close the connections. The front door can be used again."""
        while self._pools:
            self._pools.popitem()[1].shutdown()
        if self._queue is not None:
            self._queue.close()
