"""Members in the order of their scores; equal scores by member."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Generic, TypeVar

M = TypeVar("M", bound=Any)


class Ordered(Generic[M]):
    """What Redis calls a sorted set."""

    def __init__(self) -> None:
        self.scores: dict[M, float] = {}
        self._items: list[tuple[float, M]] = []

    def __len__(self) -> int:
        return len(self._items)

    def put(self, member: M, score: float) -> None:
        """Add a member, or move it."""
        self.take(member)
        self.scores[member] = score
        insort(self._items, (score, member))

    def take(self, member: M) -> bool:
        """Take a member out; False: it was not in."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self._items[bisect_left(self._items, (score, member))]
        return True

    def rank(self, member: M) -> int:
        """How many come before this member, which must be in."""
        return bisect_left(self._items, (self.scores[member], member))

    def first(self) -> tuple[float, M] | None:
        """The lowest score and its member."""
        return self._items[0] if self._items else None

    def second(self) -> float | None:
        """The second lowest score."""
        return self._items[1][0] if len(self._items) > 1 else None

    def highest(self) -> float | None:
        """The highest score."""
        return self._items[-1][0] if self._items else None

    def until(self, score: float, most: int) -> list[M]:
        """The first members whose scores are not above this one, at most so many."""
        found = []
        for at, member in self._items[:most]:
            if at > score:
                break
            found.append(member)
        return found
