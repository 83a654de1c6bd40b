"""Takes the samples of the short history, while a dashboard runs."""

from __future__ import annotations

import logging
import threading

from fairqueue._queue import FairQueue
from fairqueue.errors import FairQueueError

EVERY_SECONDS = 30.0
log = logging.getLogger("fairqueue.dashboard")


class Sampler:
    """A thread that starts with the first request, not before a server forks."""

    def __init__(self, queue: FairQueue) -> None:
        self._queue, self._lock = queue, threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread, unless it runs."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="fairqueue-sampler", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.sample()
            self._stop.wait(EVERY_SECONDS)

    def sample(self) -> None:
        """Take one sample; if the store cannot be reached, try again next time."""
        try:
            self._queue.views.note_sample()
        except FairQueueError as error:
            log.warning("no sample of the dashboard's history was taken: %s", error)

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=EVERY_SECONDS)
