"""What each call costs a master, by how many workspaces have jobs on its shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from statistics import fmean, linear_regression

EIGHT = 8


@dataclass(frozen=True)
class Measured:
    """Seconds of the server's processor for one call of each kind, at one number of workspaces."""

    workspaces: int
    server: Mapping[str, float]


@dataclass(frozen=True)
class Prices:
    """Seconds for each call beside any number of workspaces: a line over the logarithm of it.

    Beyond the largest number that was measured the line goes on: that is extrapolated.
    """

    measured: Sequence[Measured]
    client: float
    """Seconds of the client's processor for one call."""
    bytes_each: float = 0.0
    """What a workspace with one waiting job takes, at the largest number that was measured."""

    @property
    def most(self) -> int:
        """The largest number of workspaces on a shard that was measured."""
        return self.measured[-1].workspaces

    def at(self, workspaces: float) -> dict[str, float]:
        """Return what each call costs beside so many."""
        x = log10(max(1.0, workspaces))
        return {kind: self._of(kind, x) for kind in self.measured[-1].server}

    def _of(self, kind: str, x: float) -> float:
        """Return the height of the line of least squares; it does not fall."""
        xs = [log10(each.workspaces) for each in self.measured]
        ys = [each.server[kind] for each in self.measured]
        slope = max(0.0, linear_regression(xs, ys).slope) if len(xs) > 1 else 0.0
        return max(min(ys) / 2, fmean(ys) + slope * (x - fmean(xs)))


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
