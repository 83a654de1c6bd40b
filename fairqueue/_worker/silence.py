"""While a worker stops, no call waits long for a silent store, so that none delays its exit."""

from __future__ import annotations

from fairqueue._queue import FairQueue


class SilenceWatch:
    """Lets a call give up a silent server after 0.7 s, as a call to one of several servers does.

    A stopped server, or a link that drops packets, refuses no connection: each call would wait for
    its time-out. A call that waits asks by a probe; if that is not answered either, all calls to
    that server raise StoreUnavailable at once, until one of its later probes is.
    """

    def __init__(self, queue: FairQueue) -> None:
        self._engines = [shard.engine for shard in queue.store.shards]
        self._before = [(engine.is_one_of_several, engine.is_patient) for engine in self._engines]

    def start(self) -> None:
        """Do so until :meth:`stop`, or until the process ends."""
        for engine in self._engines:
            engine.is_one_of_several, engine.is_patient = True, False

    def stop(self) -> None:
        """Let calls wait for the store as before."""
        for engine, before in zip(self._engines, self._before, strict=True):
            engine.is_one_of_several, engine.is_patient = before
            engine.breaker.close()
