"""Which part of a limit each shard should have: arithmetic only.

Slots go where jobs can use them, by the weight of the flows that wait there, and what no shard can
use is spread evenly, so that a newcomer on an idle shard does not wait. Where a part is no whole
number, slots go round: a shard is owed what it had less than its part, and the one that is owed
most is next. So a limit of one slot comes to each of many shards in turn, by weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import NamedTuple

TURN_SECONDS = 1.0
"""How far behind another shard must be to take over a slot: an exchange leaves it idle a moment."""
OWED_MOST = 64.0
"""Slot-seconds, either way: an imbalance of long ago is not worked off for hours."""


class Wish(NamedTuple):
    """What one shard uses and could use of a limit."""

    used: int
    demand: float
    weight: float
    quota: int = 0
    keeps: float = TURN_SECONDS
    """How far another shard must be behind it to be given what is not divided evenly."""
    served: float | None = None
    """How much it is served, if that is not what it uses."""

    @property
    def need(self) -> float:
        """How much it could use."""
        return self.used + self.demand


def parts(limit: float, wishes: Sequence[Wish]) -> list[float]:
    """Divide a limit by weight; no shard gets more than it can use, and the rest goes to others."""
    given = [0.0] * len(wishes)
    open_to = [n for n, wish in enumerate(wishes) if wish.need > 0]
    left = float(limit)
    while open_to and left > 0:
        unit = left / sum(max(wishes[n].weight, 1e-9) for n in open_to)
        full = [n for n in open_to if wishes[n].need <= unit * max(wishes[n].weight, 1e-9)]
        if not full:
            for n in open_to:
                given[n] = unit * max(wishes[n].weight, 1e-9)
            break
        for n in full:
            given[n] = wishes[n].need
            left -= given[n]
        open_to = [n for n in open_to if n not in full]
    return given


def targets(limit: int, wishes: Sequence[Wish], owed: Sequence[float]) -> list[int]:
    """Return how many each shard should have; the sum is the limit."""
    exact = parts(limit, wishes)
    whole = [floor(part + 1e-9) for part in exact]
    left = limit - sum(whole)

    def turn(n: int) -> tuple[float, float]:
        keeps = wishes[n].keeps if wishes[n].quota > whole[n] else 0.0
        return -(owed[n] + keeps), -(exact[n] - whole[n])

    wanting = [n for n, wish in enumerate(wishes) if wish.need > whole[n]]
    for n in sorted(wanting, key=turn)[:left]:
        whole[n] += 1
        left -= 1
    each, more = divmod(left, len(wishes))
    return [n_whole + each + (n < more) for n, n_whole in enumerate(whole)]


def owed_after(
    limit: int, wishes: Sequence[Wish], owed: Sequence[float], *, seconds: float
) -> list[float]:
    """Return what each shard is owed after it has used so much for so long; idle ones nothing."""
    exact = parts(limit, wishes)
    changed = (
        was + (part - (wish.used if wish.served is None else wish.served)) * seconds
        if wish.need > 0
        else 0.0
        for was, part, wish in zip(owed, exact, wishes, strict=True)
    )
    return [max(-OWED_MOST, min(OWED_MOST, now)) for now in changed]


def wanted(wishes: Sequence[Wish], aims: Sequence[int]) -> list[bool]:
    """Return which shards should get what they are to have now: they lack it, or soon may.

    The others keep what they have, so that quotas do not move for nothing.
    """
    return [
        wish.quota < aim and wish.quota < wish.need + 1
        for wish, aim in zip(wishes, aims, strict=True)
    ]


def lowered(
    limit: int,
    granted: Sequence[int],
    aims: Sequence[int],
    raised: Sequence[bool],
    used: Sequence[int],
) -> list[int]:
    """Return what each shard is to keep before others are raised: no less than they need.

    ``granted`` is what each has now. Those that have most too much give first. Where more is used
    than the limit, as after it was lowered, they keep so little that no job starts above it.
    """
    kept = list(granted)
    lacks = sum(
        max(0, aim - has)
        for aim, has, is_raised in zip(aims, granted, raised, strict=True)
        if is_raised
    )
    over = max(0, sum(granted) + lacks - limit)
    for n in sorted(range(len(kept)), key=lambda n: aims[n] - granted[n]):
        gives = min(max(0, granted[n] - aims[n]), over)
        kept[n] -= gives
        over -= gives
    return _held_back(limit, kept, used)


def _held_back(limit: int, kept: Sequence[int], used: Sequence[int]) -> list[int]:
    """Return quotas with which a shard starts nothing while all use more than the limit.

    What it does not use goes first. Then as many of its jobs must end as are too many in all.
    """
    over = sum(map(max, kept, used)) - limit
    held = list(kept)
    for n, (has, uses) in enumerate(zip(kept, used, strict=True)):
        gives = max(0, min(has - uses, over))
        held[n] -= gives
        over -= gives
    if over <= 0:
        return held
    return [min(has, max(0, uses - over)) for has, uses in zip(held, used, strict=True)]
