"""Notices, while a worker stops, that the store is silent, so that no call delays its exit."""

from __future__ import annotations

import logging

from fairqueue._queue import FairQueue
from fairqueue._threads import native_event, start_native
from fairqueue.errors import FairQueueError

log = logging.getLogger("fairqueue.silence")

PROBE_SECONDS = 1.0
PROBES_UNTIL_SILENT = 2
PROBED_QUEUE = "probe"  # any name will do


class SilenceWatch:
    """Asks the store every second from a native thread, and lets go of it while it is silent.

    A server that is stopped, or a link that drops packets, refuses no connection: each call would
    wait for its time-out. From the second unanswered probe on the queue's calls raise
    StoreUnavailable at once. Once the store answers, all is as before.
    """

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self._unanswered = 0
        self._stopped = native_event()

    def start(self) -> None:
        """Ask until :meth:`stop`, or until the process ends."""
        start_native(self._run, name="fairqueue-silence")

    def stop(self) -> None:
        """Ask no more; calls wait for the store as before."""
        self._stopped.set()
        self._queue.store.engine.silent = False

    def _run(self) -> None:
        probe = self._queue.clone(timeout_seconds=PROBE_SECONDS)
        while not self._stopped.wait(PROBE_SECONDS / 2):
            self._unanswered = 0 if self._answers(probe) else self._unanswered + 1
            if not self._stopped.is_set():
                self._tell(silent=self._unanswered >= PROBES_UNTIL_SILENT)
        probe.close()

    @staticmethod
    def _answers(probe: FairQueue) -> bool:
        try:
            probe.is_plain(PROBED_QUEUE)
        except FairQueueError:
            return False
        return True

    def _tell(self, *, silent: bool) -> None:
        engine = self._queue.store.engine
        if silent and not engine.silent:
            log.warning("Redis does not answer while this worker stops: no call waits for it")
        engine.silent = silent
