"""Runs doctor in the background, since it reads every key."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial

from fairqueue import audit
from fairqueue._queue import FairQueue
from fairqueue.errors import FairQueueError

log = logging.getLogger("fairqueue.dashboard")


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
