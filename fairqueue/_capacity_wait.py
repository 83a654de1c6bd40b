"""How a publish waits for capacity before it is rejected."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import uniform
from typing import TypeVar

from fairqueue._settings import Settings
from fairqueue.errors import CapacityExceeded

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
JITTER = (0.5, 1.0)  # so that waiting publishers do not retry at the same moment

T = TypeVar("T")


def wait_seconds(settings: Settings, requested: float | None) -> float:
    """Return how long a publish may wait: as requested, else as set; 0: not at all."""
    if requested is not None:
        return requested
    return settings.block_seconds if settings.on_full == "block" else 0.0


def retry_while_full(publish: Callable[[float], T], *, within_seconds: float) -> T:
    """Publish until it is accepted; raise CapacityExceeded once the time is up.

    ``publish`` gets the seconds waited so far. Between attempts nothing is held: no lock, no
    connection, no position in any order. Pauses are short, because ``retry_after`` is an estimate
    of at least one second and because a sleeping thread cannot be interrupted. The last attempt
    is made when the time is up.
    """
    begun, pause = time.monotonic(), FIRST_PAUSE_SECONDS
    waited = 0.0
    while True:
        try:
            return publish(waited)
        except CapacityExceeded:
            left = begun + within_seconds - time.monotonic()
            if left <= 0:
                raise
        time.sleep(min(left, pause * uniform(*JITTER)))  # noqa: S311 - no secret
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        waited = time.monotonic() - begun
