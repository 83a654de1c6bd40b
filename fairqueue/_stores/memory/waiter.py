"""Waits for a token, blocking or from an event loop, on a pipe of its own."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Sequence

from fairqueue._store import Waiter
from fairqueue._stores.memory.tokens import Tokens


class MemoryWaiter(Waiter):
    """Readable once it has a token or its time is up. Waiting is in real time, as on Redis."""

    def __init__(self, tokens: Tokens, lock: threading.RLock, queues: Sequence[str]) -> None:
        self._tokens, self._lock = tokens, lock
        self._queues = deque(queues)
        self._pipe: tuple[int, int] | None = None
        self._alarm: threading.Timer | None = None
        self._armed = False
        self._taken: str | None = None

    @property
    def queues(self) -> Sequence[str]:
        """The queues, in the order in which they are looked at."""
        return tuple(self._queues)

    def arm(self, seconds: float) -> None:
        """Start waiting; the queues take turns in being looked at first."""
        if self._enlist():
            self._alarm = threading.Timer(max(0.0, seconds), self._ring)
            self._alarm.daemon = True
            self._alarm.start()

    def _enlist(self) -> bool:
        with self._lock:
            if self._armed:
                return False
            self._armed = True
            self.fileno()
            self._queues.rotate(-1)
            self._tokens.wait(self)
        return True

    def wake(self, queue: str) -> None:
        """Take a token; called with the lock held."""
        self._taken = queue
        self._ring()

    def _ring(self) -> None:
        with self._lock:
            if self._pipe is not None and self._armed:
                os.write(self._pipe[1], b"!")

    def fileno(self) -> int:
        """The pipe's end to watch."""
        if self._pipe is None:
            self._pipe = os.pipe()
        return self._pipe[0]

    def collect(self) -> bool:
        """Blocks until the wait is over, if it is not yet."""
        os.read(self.fileno(), 1)
        return self._end() is not None

    def wait(self, seconds: float) -> bool:
        """Block until woken or time is up."""
        self._enlist()
        select.select([self.fileno()], [], [], max(0.0, seconds))
        return self._end() is not None

    def _end(self) -> str | None:
        """Stop waiting; return the queue whose token was taken."""
        with self._lock:
            if self._alarm is not None:
                self._alarm.cancel()
            self._tokens.leave(self)
            self._armed, self._alarm = False, None
            taken, self._taken = self._taken, None
            self._drain()
        return taken

    def _drain(self) -> None:
        while select.select([self.fileno()], [], [], 0)[0]:
            os.read(self.fileno(), 64)

    def close(self) -> None:
        """Stop waiting; a token that was taken by then is given to the next."""
        with self._lock:
            taken = self._end()
            if taken is not None:
                self._tokens.put(taken)
                self._tokens.hand_out()
            pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)
