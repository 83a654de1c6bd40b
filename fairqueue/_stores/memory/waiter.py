"""Waits for a queue's token, blocking or from an event loop, on a pipe of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fairqueue._stores.memory.values import List, Values
from fairqueue._stores.waiter import SLACK_SECONDS, Waiter
from fairqueue._utils import is_readable


class Tokens:
    """Gives each token to the waiter that has waited longest for it, as BLPOP does."""

    def __init__(self, values: Values, lock: AbstractContextManager[Any]) -> None:
        self.values, self.lock = values, lock
        self._waiting: list[MemoryWaiter] = []

    def hand_out(self) -> None:
        """Serve the waiters; called with the lock held."""
        for waiter in list(self._waiting):
            self._serve(waiter)

    def wait(self, waiter: MemoryWaiter) -> None:
        """Take a token that is there at once, else wait for one."""
        self._waiting.append(waiter)
        self._serve(waiter)

    def leave(self, waiter: MemoryWaiter) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)

    def give_back(self, token: bytes) -> None:
        """Put a taken token back, unless there is another."""
        self.values.by_key.setdefault(token, List([b"1"]))
        self.hand_out()

    def _serve(self, waiter: MemoryWaiter) -> None:
        token = next((key for key in waiter.tokens if key in self.values.by_key), None)
        if token is not None:
            self.values.remove(token)
            self._waiting.remove(waiter)
            waiter.wake(token)


class MemoryWaiter(Waiter):
    """Readable once it has a token or its time is up. Waiting is in real time, as on Redis."""

    def __init__(self, shared: Tokens, tokens: Callable[[], list[str]]) -> None:
        self._shared, self._lock = shared, shared.lock
        self._tokens, self._turn = tokens, 0
        self.tokens: list[bytes] = []
        """Keys, in the order in which they are tried."""
        self._pipe: tuple[int, int] | None = None
        self._alarm: threading.Timer | None = None
        self._armed = False
        self._taken: bytes | None = None

    def arm(self, seconds: float) -> None:
        """Start waiting; the queues take turns in being tried first."""
        with self._lock:
            if self._armed:
                return
            self._armed = True
            self.fileno()
            tokens = [token.encode() for token in self._tokens()]
            self._turn = (self._turn + 1) % len(tokens)
            self.tokens = tokens[self._turn :] + tokens[: self._turn]
            self._shared.wait(self)
        self.answered_by = time.monotonic() + seconds + SLACK_SECONDS
        self._alarm = threading.Timer(max(0.0, seconds), self._ring)
        self._alarm.daemon = True
        self._alarm.start()

    def wake(self, token: bytes) -> None:
        """Take a token; called with the lock held."""
        self._taken = token
        self._ring()

    def _ring(self) -> None:
        with self._lock:
            if self._pipe is not None and self._armed:
                os.write(self._pipe[1], b"!")

    def fileno(self) -> int:
        if self._pipe is None:
            self._pipe = os.pipe()
        return self._pipe[0]

    def collect(self) -> bool:
        """Block until the wait is over."""
        os.read(self.fileno(), 1)
        return self._end() is not None

    def disarm(self) -> bool:
        return self._end() is not None

    def _end(self) -> bytes | None:
        """Stop waiting; return the token that was taken."""
        with self._lock:
            if self._alarm is not None:
                self._alarm.cancel()
            self._shared.leave(self)
            self._armed, self._alarm = False, None
            taken, self._taken = self._taken, None
            self._drain()
        return taken

    def _drain(self) -> None:
        while is_readable([self.fileno()], 0):
            os.read(self.fileno(), 64)

    def close(self) -> None:
        """Stop waiting; pass a taken token on."""
        with self._lock:
            taken = self._end()
            if taken is not None:
                self._shared.give_back(taken)
            pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)
