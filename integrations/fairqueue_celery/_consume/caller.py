"""A thread that waits for Redis's answer to a claim while the worker's event loop goes on.

Meanwhile the loop reads the results of the pool's processes, and writes jobs that are at hand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from fairqueue.adapters import Claimed, Finish

IDLE_SECONDS = 10.0
"""After this long without a call the thread ends: the next call starts one."""


@dataclass(eq=False)
class Call:
    """One call to the store: what it asks, and its answer."""

    make: Callable[[], Claimed]
    wanted: int
    finishes: tuple[Finish, ...]
    acks: tuple[Finish, ...]
    claimed: Claimed | None = None
    error: BaseException | None = None
    made: threading.Event | None = None
    """Set when the caller's thread has made it, which the time-outs of its connection bound."""
    over_since: float | None = None
    """By the monotonic clock; None: there is no answer yet."""

    def run(self) -> None:
        """Make it, in any thread."""
        try:
            self.claimed = self.make()
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is read
            self.error = error
        finally:
            self.over_since = time.monotonic()
            if self.made is not None:
                self.made.set()


class Caller:
    """Makes calls one after the other, and tells when one is over."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told
        self._calls: SimpleQueue[Call] = SimpleQueue()
        self._starting = threading.Lock()
        self._runs = False

    def make(self, call: Call) -> None:
        """Make this call; where the system gives no thread, in this one."""
        with self._starting:
            if not self._runs:
                with suppress(RuntimeError):
                    threading.Thread(target=self._run, name="fairqueue-calls", daemon=True).start()
                    self._runs = True
            if self._runs:
                call.made = threading.Event()
                self._calls.put(call)
                return
        call.run()

    def _run(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._starting:
                    if self._calls.empty():
                        self._runs = False
                        return
            else:
                call.run()
                self._told()
