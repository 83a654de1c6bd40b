"""Stops an actor whose lease is lost, or whose job was cancelled, and nothing but the actor.

An exception that is thrown into a thread lands wherever that thread is. So it is thrown only while
the actor's own function runs, and what has not landed by its end is taken back: a hook of another
middleware, or the worker's loop, never sees it.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from dramatiq.middleware.threading import is_gevent_active, raise_thread_exception

from fairqueue_dramatiq.errors import RunInterrupt

Throw = Callable[[type[RunInterrupt]], None]


class Interrupts:
    """The actors that run in this process, by the fence of their job."""

    def __init__(self) -> None:
        self._greenlets = is_gevent_active()
        # A greenlet is hit in the loop, where it cannot move meanwhile; and the keeper, a thread of
        # the operating system, must not wait for a greenlet's lock.
        self._lock: AbstractContextManager[Any] = (
            nullcontext() if self._greenlets else threading.Lock()
        )
        self._throws: dict[int, Throw] = {}
        self._thrown: set[int] = set()

    @contextmanager
    def armed(self, fence: int) -> Iterator[None]:
        """While the block runs, its thread may be interrupted."""
        try:
            self._throws[fence] = self._thrower(fence)
            yield
        finally:
            self._disarm(fence)

    def interrupt(self, fence: int, kind: type[RunInterrupt]) -> None:
        """Throw into the actor that runs this job, if it runs, and once only."""
        with self._lock:
            throw = self._throws.get(fence)
            if throw is not None and fence not in self._thrown:
                self._thrown.add(fence)
                throw(kind)

    def forget(self, fence: int) -> None:
        """The job is over; an interrupt that landed in the disarming has left its traces."""
        self._throws.pop(fence, None)
        self._thrown.discard(fence)

    def _disarm(self, fence: int) -> None:
        """An interrupt that lands in here has landed: then there is nothing to take back."""
        while fence in self._throws:
            try:
                with self._lock:
                    self._throws.pop(fence, None)
                    if fence in self._thrown and not self._greenlets:
                        _take_back()
            except RunInterrupt:
                continue

    def _thrower(self, fence: int) -> Throw:
        """How this thread, or greenlet, is interrupted by another thread."""
        if not self._greenlets:
            return partial(raise_thread_exception, threading.get_ident())
        import gevent  # noqa: PLC0415 - it is active

        return partial(self._throw_later, fence, gevent.get_hub().loop, gevent.getcurrent())

    def _throw_later(self, fence: int, loop: Any, greenlet: Any, kind: type[RunInterrupt]) -> None:
        """In the loop's own thread, and only if it is still the actor that would be hit."""

        def throw() -> None:
            if fence in self._throws:
                greenlet.throw(kind)

        loop.run_callback_threadsafe(throw)


def _take_back() -> None:
    """Cancel what was thrown into this thread and has not landed."""
    if sys.implementation.name == "cpython":
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)
