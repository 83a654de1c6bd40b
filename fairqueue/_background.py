"""Work that a process does beside its calls: what fails there is logged, counted and told."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, ExitStack
from time import monotonic
from typing import Generic, TypeVar

from fairqueue._threads import has_greenlets, native_event, native_lock, start_native
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError, StoreUnavailable

T = TypeVar("T", bound=Hashable)

RENEWALS_PER_LEASE = 3
TIMEOUTS_PER_LEASE = 6  # how long a renewal waits for the server: leaves time for another attempt
RETRIES_PER_LEASE = 12  # how soon a failed renewal is retried: leaves time for one before the end

RECENT_SECONDS = 300.0
"""For how long a worker tells of a failure."""

_failures: dict[str, tuple[int, float]] = {}
"""How often each loop of this process has failed, and when it last did, by the monotonic clock."""
os.register_at_fork(after_in_child=_failures.clear)


def failures() -> dict[str, int]:
    """Count what has failed in each loop of this process, by the loop's name."""
    return {name: count for name, (count, _) in _failures.copy().items()}


def recent_failures() -> list[tuple[str, int, float]]:
    """Return the loops that have just failed, how often in all, and how many seconds ago."""
    now = monotonic()
    found = [(name, count, now - last) for name, (count, last) in _failures.copy().items()]
    return [each for each in found if each[-1] < RECENT_SECONDS]


class BackgroundLoop:
    """Work that no caller waits for, by the name that operators see, such as ``renewals``."""

    def __init__(self, name: str, log: logging.Logger) -> None:
        self._name, self._log, self._throttle = name, log, Throttle()

    def failed(
        self,
        text: str,
        *values: object,
        trace: BaseException | None = None,
        level: int = logging.WARNING,
    ) -> None:
        """Count a failure, and log it, also with its trace, unless one was logged just now."""
        count, _ = _failures.get(self._name, (0, 0.0))
        _failures[self._name] = count + 1, monotonic()
        if self._throttle.passes():
            self._log.log(level, text, *values, exc_info=trace)

    def will_retry(self, error: Exception) -> None:
        """Count a failure of what is tried again, and log it, a fault of ours with its trace."""
        level = logging.WARNING if isinstance(error, StoreUnavailable) else logging.ERROR
        trace = None if isinstance(error, FairQueueError) else error
        self.failed("%s: will try again: %s", self._name, error, trace=trace, level=level)


def renew_until(
    stopped: threading.Event,
    lease_seconds: float,
    renew: Callable[[], bool],
    failed: Callable[[Exception], object],
) -> None:
    """Renew every third of a lease until this is set, and sooner after a failure."""
    wait = lease_seconds / RENEWALS_PER_LEASE
    while not stopped.wait(wait):
        try:
            is_renewed = renew()
        except Exception as error:  # noqa: BLE001 - no other thread would renew
            failed(error)
            is_renewed = False
        wait = lease_seconds / (RENEWALS_PER_LEASE if is_renewed else RETRIES_PER_LEASE)


class BackgroundWriter(Generic[T]):
    """Writes what is added from a native thread, which lives while there is something to write.

    Beside greenlets it lives on, see :func:`has_greenlets`.
    ``opened`` gives, as a context for the thread's life, what writes a batch. If that raises, the
    items still in the batch are written later; of more than ``most`` waiting items the oldest go.
    """

    def __init__(
        self,
        name: str,
        opened: Callable[[], AbstractContextManager[Callable[[list[T]], object]]],
        *,
        every_seconds: float,
        idle_rounds: int,
        most: int,
    ) -> None:
        self._name, self._opened, self._most = name, opened, most
        self._loop = BackgroundLoop(name, logging.getLogger(f"fairqueue.{name}"))
        self._every_seconds, self._idle_rounds = every_seconds, idle_rounds
        self._reset()

    def _reset(self) -> None:
        self._pid, self._lock, self._runs = os.getpid(), native_lock(), False
        self.waiting: dict[T, None] = {}

    def add(self, item: T) -> None:
        """Have it written soon; it is written once if it is added again before that."""
        if self._pid != os.getpid():  # a forked child has no thread of its parent's
            self._reset()
        if item in self.waiting:
            return
        with self._lock:
            self.waiting[item] = None
            if len(self.waiting) > self._most:
                del self.waiting[next(iter(self.waiting))]
            if not self._runs:
                start_native(self._run, name=self._name)
                self._runs = True  # not if that fails: the next one tries again

    def flush(self) -> None:
        """Write what waits, by the calling thread; raises what the write does."""
        if self.waiting and self._pid == os.getpid():  # not what a fork's parent writes
            with self._opened() as write:
                self._write(write)

    def _write(self, write: Callable[[list[T]], object]) -> None:
        with self._lock:
            items, self.waiting = self.waiting, {}
        left = [*items]
        try:
            write(left)
        except Exception:
            with self._lock:
                self.waiting = dict.fromkeys([*left, *self.waiting][-self._most :])
            raise

    def _run(self) -> None:
        pause, idle = native_event(), 0
        write: Callable[[list[T]], object] | None = None
        with ExitStack() as opened:
            while True:
                pause.wait(self._every_seconds)
                with self._lock:
                    idle = 0 if self.waiting else idle + 1
                    if idle > self._idle_rounds and not has_greenlets():
                        self._runs = False
                        return
                try:
                    write = write or opened.enter_context(self._opened())
                    self._write(write)
                except Exception as error:  # noqa: BLE001 - it is tried again, and fails no job
                    self._loop.will_retry(error)
