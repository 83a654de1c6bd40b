"""Drives the claims from the worker's event loop.

Whatever may change what is due (an ack, an end, a wake-up) schedules one step on the loop's timer.
Timers fire after the acks that Celery has queued and before the pool looks for jobs to write to
its processes, so what a step delivers is on its way in the same turn of the loop. What is to be
asked of Redis then waits until that is written.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any

from fairqueue_celery._consume.caller import Caller
from fairqueue_celery._consume.claims import HOLD_BACK_SECONDS, Claims
from fairqueue_celery._consume.flusher import flusher
from fairqueue_celery._consume.held_lease import HeldLease

WRITE_SECONDS = 0.0005
"""After that a delivery is written in any case."""

RETRY_SECONDS = 0.1
"""After an error that the event loop logs, and goes on."""


class HubDriver:
    """Steps the claims of one transport's channels in one event loop."""

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self._thread = threading.get_ident()
        self._claims: list[Claims] = []
        self._timer: Any = None
        self._due = self._written_by = 0.0
        self._readers: dict[int, Claims] = {}
        self._pipe_reader, writer = os.pipe()
        os.set_blocking(self._pipe_reader, False)
        os.set_blocking(writer, False)
        self._pipe_writer = os.fdopen(writer, "wb", buffering=0)
        hub.add_reader(self._pipe_reader, self._woken)
        self._caller = Caller(self._end_poll)

    def drive(self, claims: Claims) -> None:
        """Step these claims too."""
        if claims not in self._claims:
            self._claims.append(claims)
        claims.changed = self._changed
        claims.closing = self._unwatch
        claims.caller = self._caller
        self._schedule(0.0)

    # Scheduling

    def _changed(self, held: HeldLease) -> None:
        flusher.look()  # the loop may be gone, or stand still while the worker stops
        if threading.get_ident() != self._thread:
            self._end_poll()
        elif held.running:
            self._schedule(HOLD_BACK_SECONDS)  # an early ack: the end may follow at once
        elif held.owner is None or held.owner not in self._claims:
            self._schedule(0.0)
        else:  # deliver to the process that is free now
            delivered, due = held.owner.deliver_next(), held.owner.due_in()
            if due is not None:
                self._schedule(due, delivered=delivered)

    def _end_poll(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed file writes to no other's number
            self._pipe_writer.write(b"!")  # if the pipe is full, the loop wakes anyway

    def _woken(self, *_: object) -> None:
        os.read(self._pipe_reader, 4096)
        self._written_by = 0.0
        self._schedule(0.0)

    def _schedule(self, delay: float, *, delivered: bool = False) -> None:
        now = time.monotonic()
        due = now + delay
        if delivered:
            self._written_by = now + WRITE_SECONDS
        if due < self._written_by:
            self._end_poll()  # the loop's next timers fire after it has written
            return
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._hub.call_later(delay, self._step_all)

    # Stepping

    def _step_all(self) -> None:
        if threading.get_ident() != self._thread:  # Celery's, while the worker's pool stops
            return
        self._timer = None
        for claims in list(self._claims):
            self._step(claims)
        if self._timer is not None and self._due <= time.monotonic():
            self._end_poll()  # kombu's hub fires ten timers in a row, then polls for a second

    def _step(self, claims: Claims) -> None:
        try:
            delivered = claims.step()
        except BaseException:
            self._schedule(RETRY_SECONDS)  # a lost connection stops this driver before that
            raise
        finally:
            if claims.has_pending:
                flusher.look()
        self._watch(claims)
        due = claims.due_in()
        if due is not None:
            self._schedule(due, delivered=delivered)

    def _watch(self, claims: Claims) -> None:
        fd = claims.fileno()
        if fd is not None and fd not in self._readers:
            self._readers[fd] = claims
            self._hub.add_reader(fd, self._readable, fd)

    def _unwatch(self, fd: int) -> None:
        if self._readers.pop(fd, None) is not None:
            self._hub.remove_reader(fd)

    def _readable(self, fd: int) -> None:
        claims = self._readers.get(fd)
        if claims is None or claims.fileno() != fd:
            self._unwatch(fd)  # the connection broke between two waits
            return
        claims.wake()
        self._step(claims)

    def stop(self) -> None:
        """Let go of the loop."""
        for claims in self._claims:
            claims.changed = claims.closing = None
            claims.caller = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for fd in [*self._readers, self._pipe_reader]:
            self._hub.remove_reader(fd)
        self._readers.clear()
        self._claims.clear()
        os.close(self._pipe_reader)
        self._pipe_writer.close()
