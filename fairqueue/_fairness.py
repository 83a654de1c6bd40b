"""The arithmetic of the fair order, pure; ``lua/_fair.lua`` is its twin."""

from __future__ import annotations

from collections.abc import Callable
from random import uniform

UNKNOWN_SECONDS = 5.0  # nothing has been started yet: nobody can know
LONGEST_SECONDS = 300.0
JITTER = (1.0, 1.5)


def retry_after(
    over: int, pace: float, idle: float | None, jitter: Callable[[float, float], float] = uniform
) -> float:
    """Tell when there may be room, in seconds, at least 1.

    ``over`` jobs must start first, one every ``pace`` seconds of late; ``idle`` is how long ago
    the last one started (None: none has). The jitter keeps refused callers from coming together.
    """
    gap = UNKNOWN_SECONDS if idle is None else max(pace, idle)
    return max(1.0, min(over * gap, LONGEST_SECONDS) * jitter(*JITTER))
