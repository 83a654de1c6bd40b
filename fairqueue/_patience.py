"""How long a refused publish waits for room before it is refused for good."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import uniform
from typing import TypeVar

from fairqueue._settings import Settings
from fairqueue.errors import CapacityExceeded

FIRST_STEP_SECONDS, LONGEST_STEP_SECONDS = 0.05, 1.0
JITTER = (0.5, 1.0)  # so that those who wait for the same room do not come together

T = TypeVar("T")


def seconds_of(settings: Settings, asked: float | None) -> float:
    """What this publish asks for, else what is set; 0: it is refused at once."""
    if asked is not None:
        return asked
    return settings.block_seconds if settings.on_full == "block" else 0.0


def once_there_is_room(attempt: Callable[[float], T], *, within_seconds: float) -> T:
    """Attempt until it is not refused, or time is up; it is told how long that has taken so far.

    Between attempts nothing is held: no lock, no connection, no place in any order. The steps are
    short, since ``retry_after`` is a guess of a second at least, and since a thread that sleeps
    for long cannot be interrupted. The last attempt is made when time is up.
    """
    begun, step = time.monotonic(), FIRST_STEP_SECONDS
    waited = 0.0
    while True:
        try:
            return attempt(waited)
        except CapacityExceeded:
            left = begun + within_seconds - time.monotonic()
            if left <= 0:
                raise
        time.sleep(min(left, step * uniform(*JITTER)))  # noqa: S311 - no secret
        step = min(2 * step, LONGEST_STEP_SECONDS)
        waited = time.monotonic() - begun
