"""What each call costs a master, by how many workspaces have jobs on its shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10

EIGHT = 8


@dataclass(frozen=True)
class Measured:
    """Seconds of the server's processor for one call of each kind, at one number of workspaces."""

    workspaces: int
    server: Mapping[str, float]


@dataclass(frozen=True)
class Prices:
    """Seconds for each call beside any number of workspaces: straight lines over their logarithm.

    Beyond the largest number that was measured the last line goes on: that is extrapolated.
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
        kinds = self.measured[0].server
        return {kind: self._of(kind, max(1.0, workspaces)) for kind in kinds}

    def _of(self, kind: str, workspaces: float) -> float:
        if len(self.measured) == 1 or workspaces <= self.measured[0].workspaces:
            return self.measured[0].server[kind]
        pairs = list(zip(self.measured, self.measured[1:], strict=False))
        low, high = next((p for p in pairs if workspaces <= p[1].workspaces), pairs[-1])
        x = log10(workspaces / low.workspaces) / log10(high.workspaces / low.workspaces)
        return max(0.0, low.server[kind] + x * (high.server[kind] - low.server[kind]))


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
