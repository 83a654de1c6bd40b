"""Tells the store what nobody has told it in time, when the consuming thread is busy elsewhere.

A solo pool runs its task in the event loop, and a script that drains one message may not come
back for an hour: what they acked, and what was claimed ahead for them, must not wait so long.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from fairqueue import FairQueueError, Throttle

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.02
LOG_EVERY_SECONDS = 10.0


class Janitor:
    """One thread per process, asleep while there is nothing to look after."""

    def __init__(self) -> None:
        self._rooms: list[Callable[[], bool]] = []
        self._wanted = threading.Event()
        self._pid: int | None = None
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)

    def serve(self, room: Callable[[], bool]) -> None:
        """Call ``room`` while it returns True, which means: look again soon."""
        self._rooms.append(room)

    def look(self) -> None:
        """There may be something to look after."""
        if self._pid != os.getpid():
            self._start()
        if not self._wanted.is_set():
            self._wanted.set()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="fairqueue-janitor", daemon=True).start()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            busy = True
            while busy:
                time.sleep(LOOK_EVERY_SECONDS)
                busy = sum(self._look_at(room) for room in list(self._rooms)) > 0

    def _look_at(self, room: Callable[[], bool]) -> bool:
        try:
            return room()
        except FairQueueError as error:
            self._log("endings could not be told to the store, trying again: %s", error)
        except Exception as error:  # noqa: BLE001 - the loop must live; it is logged
            self._log("looking after leases failed: %r", error)
        return True

    def _log(self, text: str, error: Exception) -> None:
        if self._log_throttle.passes():
            logger.warning(text, error)


janitor = Janitor()
