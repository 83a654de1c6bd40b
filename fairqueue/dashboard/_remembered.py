"""Caches values for a moment, so that many visitors cost as much as one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
FOR_SECONDS = 1.0
MOST = 500
"""Most values that are kept: names may come from addresses."""


class Remembered:
    """Values by name, each with the time at which it was read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._values = clock, dict[str, tuple[float, Any]]()
        self._reading, self._locks = threading.Lock(), dict[str, threading.Lock]()

    def get(self, name: str, read: Callable[[], T], *, times: float = 1.0) -> T:
        """Return the value of this name, read at most a second ago; others wait for one reader.

        Costly values are kept ``times`` as long.
        """
        with self._reading:
            if len(self._locks) >= MOST:
                self._locks.clear()  # another reader of the same name is no harm
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            at, value = self._values.get(name, (0.0, None))
            if name not in self._values or self._clock() - at > FOR_SECONDS * times:
                value = read()
                if len(self._values) >= MOST:
                    self.forget()
                self._values[name] = (self._clock(), value)
            found: T = value
            return found

    def forget(self) -> None:
        """Drop all values, since something was changed."""
        self._values.clear()
