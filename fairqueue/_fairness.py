"""The arithmetic that Python needs, too; that of the scripts is in ``lua/modules/fairness.lua``."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from random import uniform

WEIGHT_UNITS = 1_000_000
"""Weights are summed as whole numbers, so that sums do not drift."""

UNKNOWN_SECONDS = 5.0
"""How far apart starts are taken to be where none has been."""
LONGEST_SECONDS = 300.0
JITTER = (1.0, 1.5)


def units_of(weight: float) -> int:
    """A weight as a whole number of units."""
    return floor(weight * WEIGHT_UNITS + 0.5)


def weight_of(units: int) -> float:
    """The weight of a number of units."""
    return units / WEIGHT_UNITS


def next_start(tat: float, rate: float, burst: float) -> float:
    """The earliest next start under a rate, by its theoretical arrival time (GCRA)."""
    return tat - (burst - 1) / rate


def retry_after(
    over: int,
    start_interval: float,
    idle: float | None,
    jitter: Callable[[float, float], float] = uniform,
) -> float:
    """Estimate after how many seconds a rejected publish may be accepted, at least 1.

    ``over`` jobs must start first, and lately one started every ``start_interval`` seconds;
    ``idle`` is how long ago the last one started (None: none has). The jitter spreads the
    retries of rejected callers.
    """
    gap = UNKNOWN_SECONDS if idle is None else max(start_interval, idle)
    return max(1.0, min(over * gap, LONGEST_SECONDS) * jitter(*JITTER))


def expected_wait(
    *, turns: int, jobs: int, in_line: int, running: int, own: int, cost: float, held: bool
) -> float | None:
    """Estimate the seconds until a job starts, as if all jobs were alike and no more came.

    ``turns`` of other workspaces and ``jobs`` of its own come before it. ``in_line`` workspaces
    share the slots of ``running`` jobs. ``own`` of these belong to its workspace, and only their
    slots count where it is ``held`` at its own limit. None: nothing runs, or ``cost`` is unknown.
    """
    slots = own if held else running / max(1, in_line)
    if not slots or not cost:
        return None
    return (cost / own if held else (turns + 1) * cost / running) + jobs * cost / slots
