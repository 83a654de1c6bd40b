"""A thread that reports what the consuming thread is too busy to report.

A solo pool runs its task in the event loop, and a script that drains one message may come back an
hour later. What they acked, and what was claimed ahead for them, must not wait that long.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from fairqueue import FairQueueError
from fairqueue.adapters import BackgroundLoop, this_process

logger = logging.getLogger("fairqueue_celery.flusher")

LOOK_EVERY_SECONDS = 0.02
LOOK_AGAIN_SECONDS = 1.0
"""Only with greenlets: a keeper's native thread that calls :meth:`Flusher.look` may wake none."""

IDLE_SECONDS = 10.0
"""After this long without a look the thread ends, but with greenlets: the next look starts one."""

RETRY_SECONDS = (0.05, 1.0)
"""At random: processes that have failed together do not try again together."""


class Flusher:
    """One thread per process, asleep while nothing is pending, and gone when that lasts."""

    def __init__(self) -> None:
        self._flushes: dict[Callable[[], bool], float] = {}  # not before this time
        self._loop = BackgroundLoop("job endings", logger)
        self._pid: int | None = None

    def _reset(self) -> None:
        """Begin in this process, whose ``threading`` is patched by now if it ever is."""
        self._wanted, self._starting = threading.Event(), threading.Lock()
        self._runs = False
        self._pid = this_process.pid

    def serve(self, flush: Callable[[], bool]) -> None:
        """Call ``flush`` after each :meth:`look`, and again soon while it returns True or fails."""
        self._flushes[flush] = 0.0

    def leave(self, flush: Callable[[], bool]) -> None:
        """Call it no more."""
        del self._flushes[flush]

    def look(self) -> None:
        """Something may be pending."""
        if self._pid != this_process.pid:  # a forked child has no thread of its parent's
            self._reset()
        if not self._wanted.is_set():
            self._wanted.set()
        if not self._runs:
            self._start()

    def _start(self) -> None:
        with self._starting:
            if not self._runs:
                with suppress(RuntimeError):  # no more threads, for now or since the process ends
                    threading.Thread(
                        target=self._run, name="fairqueue-flusher", daemon=True
                    ).start()
                    self._runs = True

    def _run(self) -> None:
        is_green = not {"eventlet", "gevent"}.isdisjoint(sys.modules)
        while True:
            while not self._wanted.wait(LOOK_AGAIN_SECONDS if is_green else IDLE_SECONDS):
                if not is_green and self._ends():
                    return
            self._wanted.clear()
            busy = True
            while busy:
                time.sleep(LOOK_EVERY_SECONDS)
                busy = sum(map(self._flush, list(self._flushes))) > 0

    def _ends(self) -> bool:
        """Whether the thread ends: a look that comes after this question starts another."""
        with self._starting:
            self._runs = False
            self._runs = self._wanted.is_set()
            return not self._runs

    def _flush(self, flush: Callable[[], bool]) -> bool:
        if time.monotonic() < self._flushes.get(flush, 0.0):
            return True
        try:
            return flush()
        except FairQueueError as error:
            self._loop.failed("job endings could not be reported to Redis, trying again: %s", error)
        except Exception as error:  # noqa: BLE001 - the loop must live; it is logged
            self._loop.failed("reporting job endings failed, trying again: %r", error)
        if flush in self._flushes:
            self._flushes[flush] = time.monotonic() + random.uniform(*RETRY_SECONDS)  # noqa: S311 - no secret
        return True


flusher = Flusher()
