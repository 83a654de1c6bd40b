"""A thread that does several things of its process, each as often as that thing wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from random import uniform
from time import monotonic
from typing import Protocol

from fairqueue._background import BackgroundLoop

RETRY_SECONDS = (1.0, 2.0)
SOONEST = 0.75  # of a pause: from then on a chore is done when another one wakes the thread


class Chore(Protocol):
    """One thing that a process does now and then."""

    loop: BackgroundLoop
    """Tells of its failures."""

    def look(self) -> float:
        """Do some of what is due; return in how many seconds to look again."""


class Chores:
    """Does chores, one after the other, until it is stopped."""

    def __init__(self, *chores: Chore, at_end: Sequence[Callable[[], object]] = ()) -> None:
        """``at_end`` are called in the thread when it ends."""
        self._due = dict.fromkeys(chores, (0.0, 0.0))  # from when on it may be done, and is
        self._at_end = at_end
        self._stopped = threading.Event()

    def start(self) -> Chores:
        threading.Thread(target=self._run, name="fairqueue-chores", daemon=True).start()
        return self

    def stop(self) -> None:
        """End the thread after its current look."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(max(0.0, self._next() - monotonic())):
            for chore, (soonest, _) in [*self._due.items()]:
                if soonest <= monotonic() and not self._stopped.is_set():
                    pause, ended = self._look(chore), monotonic()
                    self._due[chore] = ended + SOONEST * pause, ended + pause
        for end in self._at_end:
            end()

    def _next(self) -> float:
        return min(at for _, at in self._due.values())

    def _look(self, chore: Chore) -> float:
        try:
            return chore.look()
        except Exception as error:  # noqa: BLE001 - it is logged, and the thread goes on
            chore.loop.will_retry(error)
        return uniform(*RETRY_SECONDS)  # noqa: S311 - no secret
