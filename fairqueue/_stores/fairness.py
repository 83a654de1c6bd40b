"""The part of ``lua/scheduler/fairness.lua`` that Python needs, too."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from random import uniform

WEIGHT_UNITS = 1_000_000
"""Weights are summed as whole numbers, so that sums do not drift."""

UNKNOWN_SECONDS = 5.0
"""Assumed seconds between starts if there has been none."""
LONGEST_SECONDS = 300.0
JITTER = (1.0, 1.5)

MOST_TIMES = 3.0
"""A job that takes more than this many times its estimate has no known end."""
LATE_SECONDS = 1.0
"""Seconds by which a short job may be late for other reasons."""
HALVINGS = 30
"""After them a time within a day is exact to less than a millisecond."""


def units_of(weight: float) -> int:
    """A weight as a whole number of units."""
    return floor(weight * WEIGHT_UNITS + 0.5)


def weight_of(units: int) -> float:
    """The weight of a number of units."""
    return units / WEIGHT_UNITS


def next_start(tat: float, rate: float, burst: float) -> float:
    """Return the earliest next start under a rate, by its theoretical arrival time."""
    return tat - (burst - 1) / rate


def retry_after(over: int, start_interval: float, idle: float | None) -> float:
    """Estimate after how many seconds a rejected publish may be accepted, at least 1.

    ``over`` jobs must start first, and lately one started every ``start_interval`` seconds;
    ``idle`` is how long ago the last one started (None: none has). The jitter spreads the
    retries of rejected callers.
    """
    gap = UNKNOWN_SECONDS if idle is None else max(start_interval, idle)
    return max(1.0, min(over * gap, LONGEST_SECONDS) * uniform(*JITTER))  # noqa: S311


def seconds_left(expected: float | None, elapsed: float) -> float | None:
    """Estimate how long a job with an ``expected`` duration still runs.

    A job that is late is assumed to be as late again when it ends. None: it is far too late to
    tell, or has no estimate.
    """
    if expected is None or elapsed > MOST_TIMES * expected + LATE_SECONDS:
        return None
    return abs(expected - elapsed)


def nth_start(ends: Sequence[float], cost: float, n: int) -> float | None:
    """Estimate when job number ``n`` starts, from 0, on slots that are free in ``ends`` seconds.

    Each job takes ``cost`` seconds; where that is 0 it is not known. None: no estimate is possible.
    """
    if not cost:
        return sorted(ends)[n] if n < len(ends) else None
    if not ends:
        return None
    low, high = min(ends), max(ends) + (n // len(ends)) * cost
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        started = sum(floor((middle - end) / cost) + 1 for end in ends if end <= middle)
        low, high = (low, middle) if started > n else (middle, high)
    return high
