"""Blocking consumption without an event loop: kombu's drain_events, gevent and eventlet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from kombu.transport.redis import MultiChannelPoller

from fairqueue_celery._consume.claims import Claims
from fairqueue_celery._consume.flusher import flusher
from fairqueue_celery._consume.held_lease import HeldLease
from fairqueue_celery._consume.pool import is_told_to_stop, worker_on


class Poller(MultiChannelPoller):
    """Stock polling of plain queues and fanout, and the claims of each channel."""

    def __init__(self, transport: Any) -> None:
        super().__init__()
        self._transport = transport
        self._watched: dict[int, Claims] = {}
        self._pipe: tuple[int, int] | None = None
        self._woken = False
        self._delivered_at = 0.0

    def get(self, callback: Callable[..., None], timeout: float | None = None) -> None:
        """Handle one event, or raise Empty when there is none in time."""
        every = [channel.claims for channel in self._channels]
        claims = [each for each in every if each.needs_steps]
        if not claims:
            self.poll_plain(callback, timeout)
        elif not self._step_all(claims):
            self._wait(claims, callback, timeout)

    def poll_plain(self, callback: Callable[..., None], timeout: float | None) -> None:
        """Handle one plain message or one event of a descriptor, or raise Empty."""
        super().get(callback, timeout=timeout)

    def _step_all(self, claims: list[Claims]) -> bool:
        """Whether to return: a job was delivered, or the worker's loop must see that it stops."""
        in_worker = worker_on(self._transport) is not None
        if in_worker and is_told_to_stop():
            return True
        return sum(self._step(each, in_worker=in_worker) for each in claims) > 0

    def _step(self, claims: Claims, *, in_worker: bool) -> bool:
        """Whether a job was delivered; what its consumer acked at once is reported at once."""
        if self._delivered_at and not in_worker:
            claims.took(time.monotonic() - self._delivered_at)  # until it came for the next
        begun = time.monotonic()
        delivered = claims.step(most=None if in_worker else 1)
        self._delivered_at = begun if delivered else 0.0
        if claims.has_pending:
            flusher.look()
        return delivered

    # Waiting

    def _wait(
        self, claims: list[Claims], callback: Callable[..., None], timeout: float | None
    ) -> None:
        self._watch_all(claims)
        times = [timeout, *(each.due_in() for each in claims)]
        known = [seconds for seconds in times if seconds is not None]
        try:
            self.poll_plain(callback, min(known) if known else None)
        except Empty:
            if not self._step_all(claims):
                raise

    def _watch_all(self, claims: list[Claims]) -> None:
        self._open_pipe()
        wanted = {fd: each for each in claims if (fd := each.fileno()) is not None}
        for fd in set(self._watched) - set(wanted):
            self._unwatch(fd)
        for each in claims:
            each.changed = self._changed
            each.closing = self._unwatch
        for fd, each in wanted.items():
            if fd not in self._watched:
                self.poller.register(fd, self.eventflags)
            self._watched[fd] = each

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is None:
            return
        try:
            self.poller.unregister(fd)
        except (KeyError, ValueError, OSError):
            return  # closed with its connection, and so gone from the poller

    def _open_pipe(self) -> None:
        """Another thread or greenlet may end a job while this one waits, and wakes it."""
        if self._pipe is None:
            self._pipe = reader, writer = os.pipe()
            self._woken = False
            os.set_blocking(reader, False)
            os.set_blocking(writer, False)
            self.poller.register(reader, self.eventflags)

    def _changed(self, _held: HeldLease) -> None:
        flusher.look()  # the poll may have ended for good: the worker stops
        if self._pipe is None or self._woken:
            return
        self._woken = True  # before it writes: eventlet lets one greenlet at a time write
        os.write(self._pipe[1], b"!")

    def handle_event(self, fileno: int, event: int) -> Any:
        """End the wait at a wake-up, from the store or this process; the rest is stock."""
        if self._pipe is not None and fileno == self._pipe[0]:
            os.read(fileno, 4096)  # with eventlet others run meanwhile
            self._woken = False  # what has changed by now is seen by the step that follows
            return None
        claims = self._watched.get(fileno)
        if claims is None:
            return super().handle_event(fileno, event)
        if claims.fileno() == fileno:
            claims.wake()
        self._unwatch(fileno)
        return None

    def close(self) -> None:
        """Close what was opened to wait."""
        for channel in self._channels:
            channel.claims.changed = channel.claims.closing = None
        for fd in list(self._watched):
            self._unwatch(fd)
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            self.poller.unregister(pipe[0])
            os.close(pipe[0])
            os.close(pipe[1])
        super().close()
