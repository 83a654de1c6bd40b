"""Lets a cold stop begin between two steps of the worker's event loop, not inside one.

Since 5.5 Celery stops the pool inside the handler of SIGQUIT, which Python runs wherever the main
thread is. The stop may then wait for a job whose write to a process it has interrupted, or for a
lock that the interrupted step holds: the worker hung.
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
from celery.platforms import signals

NAMES = ("SIGQUIT", "SIGTERM")
"""The second where ``REMAP_SIGTERM`` makes it a cold stop."""

PATIENCE_SECONDS = 1.0
"""A step that takes longer waits for Redis, or in a callback, and the stop begins inside it."""


class ColdStop:
    """Celery's cold stop of one worker. A solo pool's is its own: its tasks run in the loop."""

    def __init__(self, consumer: Any) -> None:
        self._loop, self._looping_pid = consumer.loop, 0
        self._begin: Callable[[], object] | None = None
        self._pipe: tuple[int, ...] = ()
        consumer.loop = self._run

    def register(self, consumer: Any, hub: Any) -> None:
        """Begin it in this event loop, which is about to run."""
        if not self._pipe and not isinstance(consumer.pool, SoloPool):
            self._catch()
        if self._pipe:
            hub.add_reader(self._pipe[0], self._woken)
            self._looping_pid = os.getpid()

    def _catch(self) -> None:
        for name in filter(signals.supported, NAMES):
            handler: Any = signal.getsignal(signals.signum(name))
            if getattr(handler, "__name__", "") == "worker_Cold":  # Celery's
                self._pipe = self._pipe or os.pipe()
                signals[name] = partial(self._handle, handler)  # not in a foreign thread

    def _handle(self, handler: Callable[..., object], number: int, frame: object) -> None:
        is_asked_again = self._begin is not None
        self._begin = partial(handler, number, frame)
        if is_asked_again or self._looping_pid != os.getpid():  # a child has no loop
            self._begin_now()
            return
        os.write(self._pipe[1], b"!")
        with contextlib.suppress(RuntimeError):  # no more threads
            start_new_thread(self._ask_again, (number,))

    def _ask_again(self, number: int) -> None:
        time.sleep(PATIENCE_SECONDS)
        if self._begin is not None:
            os.kill(os.getpid(), number)

    def _woken(self, *_: object) -> None:
        os.read(self._pipe[0], 1)
        self._begin_now()

    def _run(self, *args: Any) -> None:
        try:
            self._loop(*args)
        finally:
            self._begin_now()  # the loop ended before it could

    def _begin_now(self) -> None:
        self._looping_pid = 0
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()

    def close(self) -> None:
        """Let go of the loop, which has ended."""
        self._looping_pid = 0
        for fd in self._pipe:
            os.close(fd)
        self._pipe = ()
