"""Runs doctor in the background, since it reads every key."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from fairqueue._queue import FairQueue
from fairqueue._stores.engine import Remark
from fairqueue.audit import Finding, Repair
from fairqueue.errors import FairQueueError


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the last look."""

    is_running: bool = False
    remarks: Sequence[Remark] = ()
    findings: Sequence[Finding] | None = None
    """None: there was no look yet, or it failed."""
    repairs: Sequence[Repair] | None = ()
    """None: a repair runs now."""
    error: str = ""
    finished: float | None = None
    """By this process's monotonic clock."""
    seconds: float = 0.0
    """How long it took."""

    @property
    def age(self) -> float | None:
        """Seconds since it ended."""
        return None if self.finished is None else time.monotonic() - self.finished


class Checkup:
    """Runs at most one look at a time."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue, self._lock = queue, threading.Lock()
        self.last = Checked()

    def begin(self, *, repair: bool = False) -> bool:
        """Start a look, or a repair and a look; False: one is under way."""
        with self._lock:
            if self.last.is_running:
                return False
            self.last = Checked(is_running=True, repairs=None if repair else ())
        run = partial(self.run, repair=repair)
        threading.Thread(target=run, name="fairqueue-checkup", daemon=True).start()
        return True

    def run(self, *, repair: bool = False) -> None:
        """Look, or mend and look, and keep what was found."""
        began, checked = time.monotonic(), Checked()
        try:
            found = self._queue.doctor.checkup(repair=repair)
            checked = Checked(remarks=found.remarks, findings=found.findings, repairs=found.repairs)
        except FairQueueError as failure:
            checked = Checked(error=str(failure))
        now = time.monotonic()
        self.last = replace(checked, finished=now, seconds=now - began)
