"""The worker's event loop as kombu's Redis transport gets it: it adds no descriptor in vain."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ADD_AGAIN_SECONDS = 1.0
"""After a silent reconnect of redis-py the same number is another socket, which is not polled."""


class SparingLoop:
    """Kombu adds every descriptor at each turn of the loop: a system call for each."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._added: dict[int, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def add_reader(self, fd: int, callback: Callable[..., object], *args: Any) -> None:
        """Add it, unless it is there, and was added a moment ago."""
        now = time.monotonic()
        is_there = self._loop.readers.get(fd) == (callback, args)
        if is_there and now < self._added.get(fd, now) + ADD_AGAIN_SECONDS:
            return
        self._added[fd] = now
        self._loop.add_reader(fd, callback, *args)
