"""Permits of limits wider than a shard, on their home shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairqueue._keys import encode_in
from fairqueue._shards.placement import shard_of
from fairqueue._stores.operators import OperatorStore

HOMES = 2
"""Homes are among the first two shards, which always exist, so that no reshard moves a limit."""


UNUSED = "!"
"""Prefix of a freed permit under which no job has started: no rate counts it."""


class Change(NamedTuple):
    """Permits of one limit to free, and to take."""

    limit: str
    """``scope:name``, with the name as in keys."""
    turn: str = "-"
    """What takes turns once refused: a queue, or a shard."""
    freed: Sequence[str] = ()
    taken: Sequence[str] = ()

    def line(self) -> str:
        some = (",".join(permits) or "-" for permits in (self.freed, self.taken))
        return " ".join((self.limit, self.turn, *some)) + "\n"


class Told(NamedTuple):
    """The reply to a change."""

    taken: int
    """How many were taken, the first ones."""
    wait_seconds: float
    """How long a refused owner waits at most until it asks again."""
    has_others: bool
    """Whether others wait for their turn, so that a spare permit must not be used again."""
    opened: Sequence[int]
    """Shards on which the task may start again."""
    adopted: Sequence[str]
    """Permits of jobs that ran before the limit came, not renewed by their owners yet."""


class Count(NamedTuple):
    """How many jobs run under a limit, and how many more may start; None: it is no limit."""

    used: int
    room: int | None


def home_of(limit: str) -> int:
    """Return the shard on which a limit lives."""
    return shard_of(limit, HOMES)


def adopted(owner: str, fence: int) -> str:
    """Name the permit of a job that ran before its limit was set; the owner is encoded."""
    return f"{owner}:{fence}"


def limit_of(scope: str, name: str) -> str:
    """Name a limit; ``name`` is not encoded."""
    return f"{scope}:{encode_in(scope, name)}"


class PermitStore(OperatorStore):
    """The operations on permits."""

    def permits(
        self,
        changes: Sequence[Change] = (),
        *,
        seconds: float,
        renewed: Mapping[str, Sequence[str]] | None = None,
    ) -> list[Told]:
        """Renew permits for so long, free some, and take others, in one step.

        The owner makes up a permit's name, so a call may be repeated. Renewing a lost permit puts
        it back.
        """
        lines = (f"{limit} {','.join(some)}\n" for limit, some in (renewed or {}).items())
        reply = self._call(
            "permits",
            seconds=seconds,
            renewed="".join(lines),
            changes="".join(change.line() for change in changes),
        )
        return [_told(each.decode()) for each in reply]

    def ended_permits(self, permits: Sequence[str]) -> list[str]:
        """Return those adopted permits whose jobs run no more on this shard."""
        fences = [permit.rpartition(":")[2] for permit in permits]
        leases = self.engine.command("HMGET", self.engine.keys.key("leases"), *fences)
        return [permit for permit, lease in zip(permits, leases, strict=True) if lease is None]

    def open_task(self, task: str) -> None:
        """Let a task start here again: its turn at the home of its limit has come."""
        self._call("open_task", task=task)

    def count_permits(self, limits: Iterable[str]) -> list[Count]:
        """Return how many jobs run under each of some limits, and how many may start."""
        return [_count(each) for each in self._call("count_permits", limits=" ".join(limits))]


def _count(text: bytes) -> Count:
    used, room = text.decode().split()
    return Count(int(used), None if room == "-" else int(float(room)))


def _told(text: str) -> Told:
    taken, wait, others, opened, adopted = text.split(" ")
    shards, permits = (list(filter(None, some.split(","))) for some in (opened, adopted))
    return Told(int(taken), float(wait), others == "1", [int(n) for n in shards], permits)
