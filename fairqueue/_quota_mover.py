"""Moves quotas of limits that are wider than a shard, from a thread of a process that claims.

One process of all does it at a time; another takes over when that one dies. The limits hold
whichever process does it, and whether any does: see ``_stores/sharded/quotas.py``.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Sequence
from functools import partial
from random import uniform

from fairqueue._stores.quotas import scope_of
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.sharded.quotas import TENURE_SECONDS
from fairqueue._stores.store import AnyStore
from fairqueue._tally import Tally
from fairqueue._threads import native_event, start_native
from fairqueue._utils import Throttle, process_name

log = logging.getLogger("fairqueue.quotas")

MOVE_EVERY_SECONDS = 0.5
RESTS = 9
"""The pause behind a look is at least this many times as long as the look."""
LONGEST_PAUSE_SECONDS = 10.0
LONGEST_TENURE_SECONDS = 60.0
"""No process keeps the task for longer without a sign of life, whatever the clock says."""
CALL_SECONDS = 1.0
"""How long one call waits for a server."""
LOG_EVERY_SECONDS = 30.0
NAMED = 5
"""Limits that one line of the log names."""


class QuotaMover:
    """Keeps a thread that moves quotas; with one shard there is none."""

    def __init__(self, store: AnyStore, tally: Tally) -> None:
        self._store, self._tally = store, tally
        self._log_throttle = Throttle(LOG_EVERY_SECONDS)
        self._unshared_throttle = Throttle(LOG_EVERY_SECONDS)
        self._pause = MOVE_EVERY_SECONDS
        self._moves = 0
        self._pid = 0
        self._stopped: threading.Event | None = None

    def start(self) -> None:
        """Start the thread if this process has none."""
        if self._pid == os.getpid() or not isinstance(self._store, ShardedStore):
            return
        stopped = native_event()
        run = partial(_run, weakref.ref(self), self._store, stopped)
        try:
            start_native(run, name="fairqueue-quotas")
        except RuntimeError as error:  # no more threads: the next claim tries again
            self.failed(error)
        else:
            self._pid, self._stopped = os.getpid(), stopped

    def stop(self) -> None:
        """Stop the thread; the next :meth:`start` starts another one."""
        if self._stopped is not None and self._pid == os.getpid():
            self._stopped.set()
        self._pid, self._stopped = 0, None

    def beat(self, store: ShardedStore) -> float:
        """Move what must be moved, if that is this process's task; return when to look again."""
        quotas = store.quotas
        seconds = TENURE_SECONDS + 2 * (self._pause - MOVE_EVERY_SECONDS)
        has_moved, self._moves = quotas.moves > self._moves, quotas.moves
        try:
            is_mine, left = quotas.tend(process_name(), seconds=seconds, has_moved=has_moved)
            if not is_mine:
                left = min(max(left, MOVE_EVERY_SECONDS), LONGEST_TENURE_SECONDS)
                return uniform(1.0, 1.5) * left  # noqa: S311 - no secret
            begun = time.monotonic()
            store.look()  # this process may do nothing else
            quotas.move()
            self._tell_unshared(quotas.unshared)
            took = time.monotonic() - begun
            self._pause = min(max(MOVE_EVERY_SECONDS, RESTS * took), LONGEST_PAUSE_SECONDS)
        except Exception as error:  # noqa: BLE001 - it is logged and counted, and tried again
            self.failed(error)
        return self._pause

    def _tell_unshared(self, limits: Sequence[str]) -> None:
        if limits and self._unshared_throttle.passes():
            named = ", ".join(" ".join(filter(None, scope_of(limit))) for limit in limits[:NAMED])
            log.warning("shards differ in limits, set them again, see `doctor`: %s", named)

    def failed(self, error: Exception) -> None:
        """Count that it failed, and log it now and then."""
        self._tally.quota_errors += 1
        if self._log_throttle.passes():
            log.warning("could not move quotas of limits over all shards, will retry: %s", error)


def _run(mover: weakref.ref[QuotaMover], whole: ShardedStore, stopped: threading.Event) -> None:
    """Run until it is stopped, or its queue is not used any more."""
    store: ShardedStore | None = None
    wait = uniform(0.0, MOVE_EVERY_SECONDS)  # noqa: S311 - no secret
    while not stopped.wait(wait):
        living = mover()
        if living is None:
            break
        try:
            store = store or whole.clone(timeout_seconds=CALL_SECONDS)
            wait = living.beat(store)
        except Exception as error:  # noqa: BLE001 - it is logged and counted, and tried again
            living.failed(error)
            wait = MOVE_EVERY_SECONDS
        del living
    if store is not None:
        store.close()
