"""Lets a cold stop begin between two steps of the worker's event loop, not inside one.

Since 5.5 Celery stops the pool inside the handler of SIGQUIT, which Python runs wherever the main
thread is. A job that it writes to a process is never written to its end then, and a lock that it
holds is never released, but the stop waits for what needs either: the worker hung.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from _thread import start_new_thread  # a thread of threading's starts under locks
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.concurrency.solo import TaskPool as SoloPool

NAMES = ("SIGQUIT", "SIGTERM")
"""SIGTERM if Celery is told to remap it."""

PATIENCE_SECONDS = 1.0
"""A step that takes longer waits for Redis, or in a callback, and the stop begins inside it."""


class ColdStop:
    """Celery's cold stop of one worker. A solo pool's is its own: its tasks run in the loop."""

    def __init__(self, consumer: Any) -> None:
        self._loop, self._is_looping = consumer.loop, False
        self._begin: Callable[[], object] | None = None
        self._reader = self._writer = -1
        consumer.loop = self._run

    def register(self, consumer: Any, hub: Any) -> None:
        """Begin it in this event loop, which is about to run."""
        if isinstance(consumer.pool, SoloPool):
            return
        if self._reader < 0:
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
            for number in (getattr(signal, name, None) for name in NAMES):
                self._catch(number)
        hub.add_reader(self._reader, self._woken)
        self._is_looping = True

    def _catch(self, number: Any) -> None:
        handler: Any = None if number is None else signal.getsignal(number)
        if getattr(handler, "__name__", "") == "worker_Cold":  # Celery's
            signal.signal(number, partial(self._handle, handler))

    def _handle(self, handler: Callable[..., object], number: int, frame: object) -> None:
        is_asked_again = self._begin is not None
        self._begin = partial(handler, number, frame)
        if is_asked_again or not self._is_looping:
            self._begin_now()
            return
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, b"!")
        with contextlib.suppress(RuntimeError):  # no more threads
            start_new_thread(self._ask_again, (number,))

    def _ask_again(self, number: int) -> None:
        time.sleep(PATIENCE_SECONDS)
        if self._begin is not None:
            os.kill(os.getpid(), number)

    def _woken(self, *_: object) -> None:
        os.read(self._reader, 4096)
        self._begin_now()

    def _run(self, *args: Any) -> None:
        try:
            self._loop(*args)
        finally:
            self._is_looping = False
            self._begin_now()  # the loop ended before it could

    def _begin_now(self) -> None:
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()
