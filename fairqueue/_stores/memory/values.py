"""Keys and their values, as Redis keeps them: an empty one vanishes, and some expire."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf, nextafter
from typing import Any, TypeVar

from sortedcontainers import SortedList

T = TypeVar("T")
C = TypeVar("C", bound="Hash | Set | List | ZSet")


class CommandError(Exception):
    """A command was refused; the text is Redis's."""


class Hash(dict[bytes, bytes]):
    """Fields and values, in the order in which the fields came."""


class Set(dict[bytes, None]):
    """Members, in the order in which they came."""


class List(deque[bytes]):
    """Elements; the ends are cheap."""


class ZSet(dict[bytes, float]):
    """Scores by member, and the members in the order of their scores."""

    def __init__(self) -> None:
        super().__init__()
        self.order = SortedList()

    def put(self, member: bytes, score: float) -> bool:
        """Add a member, or change its score; True: it is new."""
        before = self.get(member)
        score += 0.0  # Redis keeps -0 as 0
        if before != score:
            if before is not None:
                self.order.remove((before, member))
            self.order.add((score, member))
            self[member] = score
        return before is None

    def take(self, member: bytes) -> bool:
        """Remove a member; False: there is none."""
        score = self.pop(member, None)
        if score is None:
            return False
        self.order.remove((score, member))
        return True

    def position(self, score: float, *, after: bool) -> int:
        """Return how many members are below this score; ``after``: or at it."""
        if after and score == inf:
            return len(self.order)
        return int(self.order.bisect_left((nextafter(score, inf) if after else score,)))


_EMPTY: dict[type, Any] = {kind: kind() for kind in (Hash, Set, List, ZSet)}


class Values:
    """A database: values by key, and when some of them expire."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.by_key: dict[bytes, Any] = {}
        self.ends = ZSet()

    def get(self, key: bytes, kind: type[T]) -> T | None:
        """Return the value of a key, which must be of this kind if it is there."""
        value = self.by_key.get(key)
        if value is None or type(value) is kind:
            return value
        raise CommandError("WRONGTYPE Operation against a key holding the wrong kind of value")

    def read(self, key: bytes, kind: type[C]) -> C:
        """Return the container at a key, or an empty one that must not be changed."""
        value = self.get(key, kind)
        return _EMPTY[kind] if value is None else value

    def made(self, key: bytes, kind: type[C]) -> C:
        """Return the container at a key; create it if there is none."""
        value = self.get(key, kind)
        if value is None:
            value = self.by_key[key] = kind()
        return value

    def remove(self, key: bytes) -> bool:
        """Remove a key; False: there is none."""
        self.ends.take(key)
        return self.by_key.pop(key, None) is not None

    def end(self, key: bytes, seconds: float) -> None:
        """Let a key expire after this time."""
        self.ends.put(key, self.clock() + seconds)

    def expire(self) -> None:
        """Remove the keys whose time is up. Within a script time stands still."""
        order, now = self.ends.order, self.clock()
        while order and order[0][0] <= now:
            self.remove(order[0][1])
