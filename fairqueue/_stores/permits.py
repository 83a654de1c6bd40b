"""Limits wider than a shard: permits of those whose home this shard is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairqueue._keys import encode_in
from fairqueue._shards import shard_of
from fairqueue._stores.operators import OperatorStore

HOMES = 2
"""Limits live on the first shards, of which there are always two: so no change of the number of
shards moves one."""


UNUSED = "!"
"""Before the name of a permit that is freed though no job has started by it: no rate counts it."""


class Change(NamedTuple):
    """What is to become of permits of one limit."""

    limit: str
    """``scope:name``, with the name as in keys."""
    turn: str = "-"
    """Which of those that were refused take turns: a queue, or a shard."""
    freed: Sequence[str] = ()
    taken: Sequence[str] = ()

    def line(self) -> str:
        """Write it as it is sent."""
        some = (",".join(permits) or "-" for permits in (self.freed, self.taken))
        return " ".join((self.limit, self.turn, *some)) + "\n"


class Told(NamedTuple):
    """What became of it."""

    taken: int
    """This many, the first of those that were to be taken."""
    wait_seconds: float
    """For how long one that was refused waits at most until it asks again."""
    has_others: bool
    """Others wait for their turn: what becomes free may not be used again without asking."""
    opened: Sequence[int]
    """Shards on which the task may go on."""


class Count(NamedTuple):
    """How many jobs run under a limit, and how many more may start; None: it is no limit."""

    used: int
    room: int | None


def home_of(limit: str) -> int:
    """Return the shard on which a limit lives."""
    return shard_of(limit, HOMES)


def adopted(owner: str, fence: int) -> str:
    """Name the permit of a job that ran before its limit came; the owner is encoded."""
    return f"{owner}:{fence}"


def limit_of(scope: str, name: str) -> str:
    """Name a limit; the name of its scope is given as people know it."""
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

        Each belongs to the owner that has made up its name, so a call may be repeated. Renewing one
        that was lost puts it back.
        """
        lines = (f"{limit} {','.join(some)}\n" for limit, some in (renewed or {}).items())
        reply = self._call(
            "permits",
            seconds=seconds,
            renewed="".join(lines),
            changes="".join(change.line() for change in changes),
        )
        return [_told(each.decode()) for each in reply]

    def open_task(self, task: str) -> None:
        """Let a task go on here: it has its turn at the home of its limit."""
        self._call("open_task", task=task)

    def count_permits(self, limits: Iterable[str]) -> list[Count]:
        """Return how many jobs run under each of some limits, and how many may start."""
        return [_count(each) for each in self._call("count_permits", limits=" ".join(limits))]


def _count(text: bytes) -> Count:
    used, room = text.decode().split()
    return Count(int(used), None if room == "-" else int(float(room)))


def _told(text: str) -> Told:
    taken, wait, others, opened = text.split(" ")
    return Told(int(taken), float(wait), others == "1", [int(n) for n in opened.split(",") if n])
