"""Interrupts an actor whose lease is lost or whose job was cancelled, and nothing but the actor.

An exception that is raised in another thread may surface anywhere in it. So it is raised only while
the actor's own function runs, and one that is still pending when the function ends is cancelled:
hooks of other middleware and the worker's loop never see it.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from dramatiq.middleware.threading import is_gevent_active, raise_thread_exception

from fairqueue_dramatiq.errors import RunInterrupt

Interrupt = Callable[[type[RunInterrupt]], None]


class Interrupts:
    """The actors that run in this process, by the fence of their job."""

    def __init__(self) -> None:
        self._greenlets = is_gevent_active()
        # A greenlet is interrupted from the event loop, while it cannot run; and the keeper, a
        # native thread, must not wait for a greenlet's lock.
        self._lock: AbstractContextManager[Any] = (
            nullcontext() if self._greenlets else threading.Lock()
        )
        self._running: dict[int, Interrupt | None] = {}
        """None: it was interrupted."""

    def arm(self, fence: int) -> None:
        """This thread may be interrupted from now on."""
        self._running[fence] = self._interrupter(fence)

    def disarm(self, fence: int) -> None:
        """From now on it may not: an interrupt that is pending, or surfaces in here, is dropped."""
        while fence in self._running:
            try:
                with self._lock:
                    if self._running.pop(fence) is None and not self._greenlets:
                        _cancel_pending()
            except RunInterrupt:
                continue

    def interrupt(self, fence: int, kind: type[RunInterrupt]) -> None:
        """Interrupt the actor that runs this job, if it runs, and once only."""
        with self._lock:
            interrupt = self._running.get(fence)
            if interrupt is not None:
                self._running[fence] = None
                interrupt(kind)

    def forget(self, fence: int) -> None:
        """The job has ended; an interrupt during :meth:`disarm` may have left it here."""
        self._running.pop(fence, None)

    def _interrupter(self, fence: int) -> Interrupt:
        """How another thread interrupts this thread or greenlet."""
        if not self._greenlets:
            return partial(raise_thread_exception, threading.get_ident())
        import gevent  # noqa: PLC0415 - it is active

        return partial(self._interrupt_in_loop, fence, gevent.get_hub().loop, gevent.getcurrent())

    def _interrupt_in_loop(
        self, fence: int, loop: Any, greenlet: Any, kind: type[RunInterrupt]
    ) -> None:
        """In the loop's own thread, and only if the greenlet still runs the actor."""

        def throw() -> None:
            if fence in self._running:
                greenlet.throw(kind)

        loop.run_callback_threadsafe(throw)


def _cancel_pending() -> None:
    """Cancel an exception that was raised in this thread and has not surfaced."""
    if sys.implementation.name == "cpython":
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)
