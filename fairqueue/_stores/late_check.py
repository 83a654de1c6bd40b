"""Checks a shard that was away when its process connected, before the first call to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

S = TypeVar("S")  # a store of one shard
log = logging.getLogger("fairqueue")


class LateCheck(Generic[S]):
    """Start-up checks deferred until an unreachable shard answers.

    Each clone of the store makes them over its own connections, with a time-out of its own.
    """

    def __init__(self, shard: S, number: int, todo: Iterable[Callable[[S], object]]) -> None:
        self._shard, self._number, self._todo = shard, number, list(todo)
        self._lock = threading.RLock()
        self._is_busy = self._is_done = False

    def over(self, clone: S) -> LateCheck[S]:
        """Return the same checks for a clone of the shard's store."""
        return LateCheck(clone, self._number, self._todo)

    def then(self, call: Callable[[S], object]) -> None:
        """Make this call after the checks, before any other."""
        with self._lock:
            if not self._is_done:
                self._todo.append(call)
                return
        call(self._shard)

    def passes(self) -> bool:
        """Make the deferred checks; False: called by a check itself.

        Raises StoreUnavailable while the shard is away; the breaker skips a silent one.
        """
        with self._lock:
            if self._is_busy or self._is_done:
                return self._is_done
            self._is_busy = True
            try:
                for call in self._todo:
                    call(self._shard)
                self._is_done = True
            finally:
                self._is_busy = False
        log.info("shard %d answers again", self._number)
        return True
