"""What each call costs a master, by how many workspaces have jobs on its shard."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log10
from statistics import fmean, linear_regression

EIGHT = 8
LINE_FROM = 3.0
"""The logarithm of the number of workspaces from which lanes are as short as they get."""


@dataclass(frozen=True)
class Measured:
    """Seconds of the server's processor for one call of each kind, at one number of workspaces."""

    workspaces: int
    server: Mapping[str, float]


@dataclass(frozen=True)
class Prices:
    """Seconds for each call beside any number of workspaces.

    From a thousand on they follow a line over the logarithm of that number, and below it what was
    measured. Beyond the largest number that was measured the line goes on: that is extrapolated.
    """

    measured: Sequence[Measured]
    client: float
    """Seconds of the client's processor for one call."""
    client_end: float = 0.0
    """The same for the end of its wait on one of several shards."""
    call: float = 0.0
    """Seconds that a call by itself costs the server beside its script: part of each price."""
    plain: float = 0.0
    """Seconds of a plain SET among many in one round trip, to compare machines by."""
    bytes_each: float = 0.0
    """What a workspace with one waiting job takes, at the largest number that was measured."""

    @property
    def most(self) -> int:
        """The largest number of workspaces on a shard that was measured."""
        return self.measured[-1].workspaces

    def scaled(self, plain: float) -> Prices:
        """Return what all would cost on processors on which a plain SET takes this many seconds."""
        factor = plain / self.plain

        def scaled(each: Measured) -> Measured:
            seconds = {kind: factor * one for kind, one in each.server.items()}
            return replace(each, server=seconds)

        return replace(
            self,
            measured=tuple(map(scaled, self.measured)),
            client=factor * self.client,
            client_end=factor * self.client_end,
            call=factor * self.call,
            plain=plain,
        )

    def at(self, workspaces: float) -> dict[str, float]:
        """Return what each call costs beside this many."""
        x = log10(max(self.measured[0].workspaces, workspaces))
        return {kind: self._of(kind, x) for kind in self.measured[-1].server}

    def _of(self, kind: str, x: float) -> float:
        """A claim that finds nothing looks at a page of the cleanup, for as long as there is some.

        So it costs what it does on the smallest shard.
        """
        if len(self.measured) == 1 or kind.startswith("empty"):
            return self.measured[0].server[kind]
        points = self._points(kind)
        pairs = list(itertools.pairwise(points))
        (x1, y1), (x2, y2) = next((pair for pair in pairs if x <= pair[1][0]), pairs[-1])
        return max(min(y1, y2), y1 + (x - x1) * (y2 - y1) / (x2 - x1))

    def _points(self, kind: str) -> list[tuple[float, float]]:
        """What was measured, and from a thousand on a line of least squares that never falls."""
        points = [(log10(each.workspaces), each.server[kind]) for each in self.measured]
        many = [point for point in points if point[0] >= LINE_FROM]
        if len(many) < 2:
            return points
        xs, ys = zip(*many, strict=True)
        slope = max(0.0, linear_regression(xs, ys).slope)
        line = [(x, fmean(ys) + slope * (x - fmean(xs))) for x in xs]
        return [*(point for point in points if point not in many), *line]


def price_of_claim(of: Mapping[str, float], finishes: int, leases: int, *, told: bool) -> float:
    """Return the seconds of a claim: measured with one and with eight, and a line through both."""
    side = "told" if told else "alone"
    claims = _line(of[f"claim 1, {side}"], of[f"claim 8, {side}"], leases)
    base = claims if leases else of[f"empty, {side}"]
    return base + _ends(of, finishes, side)


def _ends(of: Mapping[str, float], finishes: int, side: str) -> float:
    if not finishes:
        return 0.0
    one, eight = (of[f"both {n}, {side}"] - of[f"claim {n}, {side}"] for n in (1, EIGHT))
    return max(0.0, _line(one, eight, finishes))


def _line(one: float, eight: float, n: int) -> float:
    return one + (eight - one) * (n - 1) / (EIGHT - 1)
