"""The queue of a dashboard, as its pages read it: once for all its visitors."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fairqueue import audit
from fairqueue._queue import FairQueue
from fairqueue._types import Scope
from fairqueue.dashboard import _pictures
from fairqueue.errors import FairQueueError, StoreUnavailable
from fairqueue.operate.activity import Windows
from fairqueue.operate.dead import filter_of
from fairqueue.rows import DeadPage, Overview

log = logging.getLogger("fairqueue.dashboard")

T = TypeVar("T")
Context = dict[str, Any]
CHOICES = ("workspace", "queue", "task")
MOST_COUNTED = 500
"""Dead letters that match are counted up to this number, for the buttons that act on all."""
FOR_SECONDS = 1.0
MOST = 500
"""Most values that are kept: names may come from addresses."""


class Remembered:
    """Values by name, each with the time until which it is good."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._values = clock, dict[str, tuple[float, Any]]()
        self._reading, self._locks = threading.Lock(), dict[str, threading.Lock]()

    def get(self, name: str, read: Callable[[], T], *, times: float = 1.0) -> T:
        """Return the value of this name, read at most a second ago; others wait for one reader.

        Costly values are kept ``times`` as long. An outage is a value, too: those who have waited
        for it do not wait for another time-out, one after the other.
        """
        with self._reading:
            if len(self._locks) >= MOST:
                self._locks.clear()  # another reader of the same name is no harm
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            until, value = self._values.get(name, (float("-inf"), None))
            if self._clock() > until:
                try:
                    value, seconds = read(), FOR_SECONDS * times
                except StoreUnavailable as error:
                    value, seconds = StoreUnavailable(str(error)), FOR_SECONDS  # holds no request
                if len(self._values) >= MOST:
                    self.forget()
                self._values[name] = (self._clock() + seconds, value)
        if isinstance(value, StoreUnavailable):
            raise StoreUnavailable(str(value))
        found: T = value
        return found

    def forget(self) -> None:
        """Drop all values, since something was changed."""
        self._values.clear()


class Checkup:
    """Runs at most one look at a time, and keeps what the last one has found."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue, self._lock = queue, threading.Lock()
        self.does = ""
        """What it does now."""
        self.found: audit.Checkup | None = None
        self.error = ""
        self.seconds = self._ended = 0.0

    @property
    def age(self) -> float:
        """Seconds since the last look ended."""
        return time.monotonic() - self._ended

    def begin(self, *, repair: bool = False) -> bool:
        """Start a look, or a repair and a look; False: one is under way."""
        with self._lock:
            if self.does:
                return False
            self.does, self.found = "mends" if repair else "reads every key", None
        run = partial(self._run, repair=repair)
        threading.Thread(target=run, name="fairqueue-checkup", daemon=True).start()
        return True

    def _run(self, *, repair: bool) -> None:
        began, self.error = time.monotonic(), ""
        try:
            self.found = self._queue.doctor.checkup(repair=repair)
        except FairQueueError as failure:
            self.error = str(failure)
        except Exception as failure:
            log.exception("doctor failed")
            self.error = repr(failure)
        self._ended = time.monotonic()
        self.seconds, self.does = self._ended - began, ""


@dataclass(frozen=True, slots=True)
class View:
    """One dashboard's queue. What is read is remembered for a second, for all its visitors."""

    queue: FairQueue
    checkup: Checkup
    remembered: Remembered
    label: str = ""
    name: str = ""
    """Its name among several queues."""
    names: tuple[str, ...] = ()
    """The names of all of them."""

    def dead(self, where: Mapping[str, str], cursor: str, n: int, *, payloads: bool) -> DeadPage:
        """Return a page of the dead letters that match.

        To find them may take many steps, so an open page looks again every ten seconds.
        """
        how: dict[str, Any] = {"cursor": cursor, "n": n, "payloads": payloads}
        read = partial(self.queue.dead.look, filter_of(where), **how)
        return self.remembered.get(f"dead {how} {sorted(where.items())}", read, times=10)

    def cancellable(self, where: Mapping[str, Any]) -> tuple[int, bool] | None:
        """Count the jobs that a form may cancel, and say whether these are all.

        None: the filter is empty, or names more than a cancel can choose by.
        """
        if not where or not where.keys() <= set(CHOICES):
            return None

        def read() -> tuple[int, bool]:
            waiting = self.queue.views.waiting(**where, n=MOST_COUNTED)
            running = self.queue.views.running(**where, n=1).total
            return len(waiting.jobs) + running, not waiting.cursor

        return self.remembered.get(f"cancellable {sorted(where.items())}", read, times=10)

    def overview(self) -> Overview:
        return self.remembered.get("overview", self.queue.views.overview)

    def last_hour(self) -> Windows:
        """Return what happened in each minute of the last hour, which is read for all pages."""
        return self.remembered.get("activity", self.queue.activity.read, times=10)

    def pictures(self, *of: Scope) -> Context:
        """Return the pictures of the last hour, and their figures."""
        rows = self.queue.activity.series(of=of, read=self.last_hour())
        figures = [row for row in reversed(rows) if row.happened]
        return {"pictures": _pictures.of_activity(rows), "figures": figures}

    def hint(self, scope: Scope) -> str | None:
        """Return which name is meant, if this one is not in use: many are read for that."""
        read = partial(self.queue.views.hint, scope)
        return self.remembered.get(f"hint {scope.kind} {scope.name}", read, times=10)
