"""Arithmetic over starts: percentiles of waits, and places in the order of starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from fairqueue.demo._ledger import Start


@dataclass(frozen=True, slots=True)
class Figures:
    """One workspace in one run. Waits in seconds; places count from 1 over all workspaces."""

    started: int
    p50: float
    p99: float
    first_place: int
    last_place: int


def figures(starts: Sequence[Start]) -> dict[str, Figures]:
    """Figures per workspace, for those that had a start."""
    places: Mapping[str, list[int]] = _places(starts)
    return {tenant: _figures(starts, found) for tenant, found in places.items()}


def _places(starts: Sequence[Start]) -> Mapping[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, start in enumerate(starts):
        places[start.tenant].append(place)
    return places


def _figures(starts: Sequence[Start], places: Sequence[int]) -> Figures:
    waits = sorted(starts[place].wait_seconds for place in places)
    return Figures(
        started=len(places),
        p50=percentile(waits, 0.5),
        p99=percentile(waits, 0.99),
        first_place=places[0] + 1,
        last_place=places[-1] + 1,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of ascending values."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
