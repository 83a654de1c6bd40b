"""Checks a shard that was away when its process connected, before the first call to it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

S = TypeVar("S")  # a store of one shard
log = logging.getLogger("fairqueue")


class LateCheck(Generic[S]):
    """What was not done with one shard when the process connected; its engine does it first.

    Each clone of the store does it over its own connections, which may be those of a thread, with
    a time-out of their own.
    """

    def __init__(self, shard: S, number: int, todo: Iterable[Callable[[S], object]]) -> None:
        self._shard, self._number, self._todo = shard, number, list(todo)
        self._lock = threading.RLock()
        self._is_busy = self._is_done = False

    def over(self, clone: S) -> LateCheck[S]:
        """The same for a clone of the shard's store."""
        return LateCheck(clone, self._number, self._todo)

    def then(self, call: Callable[[S], object]) -> None:
        """Make this call when the check has passed, before any other."""
        with self._lock:
            if not self._is_done:
                self._todo.append(call)
                return
        call(self._shard)

    def passes(self) -> bool:
        """Do what was not done; False: this is a call of the check itself.

        Raises StoreUnavailable while the shard is away; one that is silent is left alone by its
        breaker.
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
