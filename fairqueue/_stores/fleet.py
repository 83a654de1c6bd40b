"""The living workers and their slots, as ``why`` sees them: which take a queue, and what runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairqueue._stores import row_readers
from fairqueue.explained import QueueWorkers
from fairqueue.rows import WorkerRow


@dataclass(frozen=True, slots=True)
class TakenSlot:
    """One lease."""

    queue: str
    owner: str
    workspace: str
    group: str | None
    task: str
    elapsed: float
    """How many seconds it has been held."""
    expected: float | None
    """How many seconds its job is expected to take; None: its task was never measured."""
    fence: int = 0


def taken_slot(row: bytes) -> tuple[int, TakenSlot]:
    """Read one lease, and its fence."""
    names = "fence queue owner workspace group task elapsed expected"
    slot = TakenSlot(**row_readers.read(TakenSlot, names, row.split(b" ")))
    return slot.fence, slot


@dataclass(frozen=True, slots=True)
class Fleet:
    """The workers, the queues that they take, and the leases or a sample of them."""

    told: Sequence[WorkerRow] = ()
    """All workers of the last day."""
    alive: Sequence[WorkerRow] = ()
    """The living ones, with what they run."""
    slots: Sequence[TakenSlot] = ()
    leases: int = 0
    """How many leases there are in all."""
    used: Callable[[Collection[str]], Mapping[str, int]] | None = None
    """Tells how many jobs run under limits wider than a shard."""

    @property
    def part(self) -> float:
        """The fraction of the leases in the sample."""
        return len(self.slots) / self.leases if self.leases > len(self.slots) > 0 else 1.0

    def takers(self, queue: str) -> list[WorkerRow]:
        """Return the living workers that take jobs from a queue."""
        return [row for row in self.alive if row.takes(queue)]

    def of_queue(self, queue: str) -> QueueWorkers:
        """Say which workers take jobs from a queue, and what they run."""
        takers = self.takers(queue)
        rest = [not row.names_all_queues for row in self.alive if not row.takes(queue)]
        seen = [row.last_seen for row in self.told if row.takes(queue)]
        return QueueWorkers(
            processes=len(takers),
            unknown=sum(rest),
            others=len(rest) - sum(rest),
            running=round(sum(row.running for row in takers) / self.part),
            slots=_sum(row.slots for row in takers),
            last_seen=max(seen, default=None),
        )


def fleet_of(workers: Iterable[WorkerRow], slots: Sequence[TakenSlot], leases: int) -> Fleet:
    """Build a fleet; of some owners only their leases are known."""
    told, running = list(workers), Counter(slot.owner for slot in slots)
    silent = running.keys() - {row.owner for row in told}
    rows = [
        *(replace(row, running=running[row.owner]) for row in told),
        *(WorkerRow(name, name, "", 0.0, 0.0, running[name]) for name in silent),
    ]
    return Fleet(told, [row for row in rows if row.is_alive], slots, leases)


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    known = [n for n in found if n is not None]
    return sum(known) if known and len(known) == len(found) else None
