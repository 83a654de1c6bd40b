"""How long to wait after tries that failed in a row."""

from __future__ import annotations

import random
import time


class Backoff:
    """How long to wait before a try, after others that failed in a row.

    After the first not at all, since it may have been one lost reply; then ever longer, up to
    about a second. Each wait is a random part of that, so that processes that failed together do
    not try again together.
    """

    SHORTEST_SECONDS = 0.05
    LONGEST_SECONDS = 1.0

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0

    def failed(self) -> None:
        """A try has failed."""
        self._failures += 1
        if self._failures > 1:
            grown = self.SHORTEST_SECONDS * 2.0 ** min(self._failures - 2, 16)
            part = random.uniform(0.75, 1.25)  # noqa: S311 - no secret
            self._until = time.monotonic() + part * min(grown, self.LONGEST_SECONDS)

    def succeeded(self) -> None:
        """A try has succeeded: the next one need not wait."""
        self._failures, self._until = 0, 0.0

    @property
    def seconds_left(self) -> float:
        """How long the next try has to wait; 0: it is due."""
        return max(0.0, self._until - time.monotonic()) if self._until else 0.0
