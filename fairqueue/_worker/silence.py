"""Notices, while a worker stops, that the store is silent, so that no call delays its exit."""

from __future__ import annotations

import logging
from functools import partial

from fairqueue._queue import FairQueue
from fairqueue._stores.breaker import CircuitBreaker
from fairqueue._stores.sharded.asking import PROBED_QUEUE
from fairqueue._stores.store import Store, StoreBase
from fairqueue._threads import native_event, start_native
from fairqueue.errors import FairQueueError

log = logging.getLogger("fairqueue.silence")

PROBE_SECONDS = 1.0
PROBES_UNTIL_SILENT = 2


class SilenceWatch:
    """Probes each server from a native thread; while it is silent, calls to it fail at once.

    A stopped server, or a link that drops packets, refuses no connection: each call would wait for
    its time-out. From the second unanswered probe on, calls to that server raise StoreUnavailable
    at once, until it answers.
    """

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self._stopped = native_event()

    def start(self) -> None:
        """Probe until :meth:`stop`, or until the process ends."""
        of_servers = {shard.engine.breaker: shard for shard in self._queue.store.shards}
        for shard in of_servers.values():
            start_native(partial(self._run, shard), name="fairqueue-silence")

    def stop(self) -> None:
        """Stop probing; calls wait for the store as before."""
        self._stopped.set()
        for shard in self._queue.store.shards:
            shard.engine.breaker.close()

    def _run(self, shard: Store) -> None:
        probe, unanswered = shard.clone(timeout_seconds=PROBE_SECONDS), 0
        probe.engine.is_probe = True
        while not self._stopped.wait(PROBE_SECONDS / 2):
            unanswered = 0 if self._answers(probe) else unanswered + 1
            if not self._stopped.is_set():
                self._tell(shard.engine.breaker, silent=unanswered >= PROBES_UNTIL_SILENT)
        probe.close()

    @staticmethod
    def _answers(probe: StoreBase) -> bool:
        try:
            probe.is_plain(PROBED_QUEUE)
        except FairQueueError:
            return False
        return True

    def _tell(self, breaker: CircuitBreaker, *, silent: bool) -> None:
        is_first = silent and not any(shard.engine.is_open for shard in self._queue.store.shards)
        breaker.open() if silent else breaker.close()
        if is_first:
            log.warning("Redis does not answer while this worker stops: no call waits for it")
