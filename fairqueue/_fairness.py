"""The arithmetic of the fair order, pure; ``lua/_fair.lua`` is its twin."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from random import uniform

FLOOR_SECONDS = 0.001  # zero would never move a tag
CREDIT_STEPS = 8  # what a parked workspace may keep behind V, and owe ahead of it, in steps
KEEP_STEP, MEAN_KEEPS = 0.95, 0.8

WEIGHT_UNITS = 1_000_000  # weights are summed as whole numbers, so that no sum drifts

UNKNOWN_SECONDS = 5.0  # nothing has been started yet: nobody can know
LONGEST_SECONDS = 300.0
JITTER = (1.0, 1.5)


def base_of(state: str, v: float, finish: float | None, step: float, big: float) -> float:
    """Where the next tag starts from; ``finish`` is None for who was never served here."""
    if finish is None:
        return v
    if state in {"parked", "rate"}:
        return max(finish, v - CREDIT_STEPS * max(step, big))
    if state == "ready":
        return finish
    return max(v, finish)


def farthest(v: float, step: float, big: float) -> float:
    """How far ahead of V a workspace stands at most that started by its reserve."""
    return v + CREDIT_STEPS * max(step, big)


def caught_up(
    v: float, head_tag: float | None, head_step: float, highest_finish: float | None
) -> float:
    """V as who joins from idle finds it: level with the others, not behind who ran alone."""
    if head_tag is not None:
        return max(v, head_tag - head_step)
    return v if highest_finish is None else max(v, highest_finish)


def largest_step(big: float, step: float) -> float:
    """A node's recent largest step, after a dispatch of ``step``."""
    return max(step, KEEP_STEP * big)


def guessed_cost(guess: float, head_cost: float | None) -> float:
    """An unknown duration is guessed, but not above what the next in line was charged.

    With nobody in line it costs the least: else a guess too high would carry V away from who
    comes next.
    """
    return max(min(guess, head_cost or 0.0), FLOOR_SECONDS)


def rescaled(tag: float, v: float, ratio: float) -> float:
    """A tag under a new weight, as if its distance from V had been charged under it."""
    return v + (tag - v) * ratio


def units_of(weight: float) -> int:
    """A weight as a whole number of units."""
    return floor(weight * WEIGHT_UNITS + 0.5)


def weight_of(units: int) -> float:
    """The weight that so many units are."""
    return units / WEIGHT_UNITS


def mean_after(mean: float | None, seconds: float) -> float:
    """A moving average after one more value."""
    return seconds if mean is None else MEAN_KEEPS * mean + (1 - MEAN_KEEPS) * seconds


def pace_after(pace: float, last: float, now: float) -> float:
    """How far apart starts are, in seconds; ``last`` 0: none has been."""
    if last == 0:
        return 0.0
    return mean_after(pace if pace > 0 else None, now - last)


def worker_seconds(seconds: float, held: float) -> float:
    """Worker-seconds cannot exceed the time that the lease was held."""
    return max(0.0, min(seconds, held))


def arrival_after(tat: float, now: float, rate: float) -> float:
    """The theoretical arrival time after one more start (generic cell rate algorithm)."""
    return max(tat, now) + 1 / rate


def next_start(tat: float, rate: float, burst: float) -> float:
    """When the next start is due under a rate."""
    return tat - (burst - 1) / rate


def retry_after(
    over: int, pace: float, idle: float | None, jitter: Callable[[float, float], float] = uniform
) -> float:
    """Tell when there may be room, in seconds, at least 1.

    ``over`` jobs must start first, one every ``pace`` seconds of late; ``idle`` is how long ago
    the last one started (None: none has). The jitter keeps refused callers from coming together.
    """
    gap = UNKNOWN_SECONDS if idle is None else max(pace, idle)
    return max(1.0, min(over * gap, LONGEST_SECONDS) * jitter(*JITTER))


def expected_wait(
    *, turns: int, jobs: int, in_line: int, running: int, own: int, cost: float, held: bool
) -> float | None:
    """Seconds until a job starts, roughly: as if all were alike and nobody came or went.

    ``turns`` of others and ``jobs`` of its own come before it; ``in_line`` share what
    ``running`` jobs free; ``own`` of these are its workspace's, which alone free room for it
    where it is ``held`` at its own limit. None: nothing runs, or nothing is known of ``cost``.
    """
    slots = own if held else running / max(1, in_line)
    if not slots or not cost:
        return None
    return (cost / own if held else (turns + 1) * cost / running) + jobs * cost / slots
