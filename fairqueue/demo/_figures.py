"""Statistics of a run: percentiles of waits, and positions in the order of starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from fairqueue.demo._ledger import Start


@dataclass(frozen=True, slots=True)
class Figures:
    """One workspace in one run. Waits are in seconds; positions count from 1 over all starts."""

    started: int
    p50: float
    p99: float
    first_position: int
    last_position: int


def figures(starts: Sequence[Start]) -> dict[str, Figures]:
    """Figures of each workspace that had at least one start."""
    return {name: _figures(starts, found) for name, found in _positions(starts).items()}


def _positions(starts: Sequence[Start]) -> Mapping[str, list[int]]:
    positions: dict[str, list[int]] = defaultdict(list)
    for position, start in enumerate(starts):
        positions[start.workspace].append(position)
    return positions


def _figures(starts: Sequence[Start], positions: Sequence[int]) -> Figures:
    waits = sorted(starts[position].wait_seconds for position in positions)
    return Figures(
        started=len(positions),
        p50=percentile(waits, 0.5),
        p99=percentile(waits, 0.99),
        first_position=positions[0] + 1,
        last_position=positions[-1] + 1,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ascending values."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
