"""What an operator does with the jobs of any framework, on a real Redis; who claims is the core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fairqueue import CapacityExceeded, FairQueue, Lease, Outcome


@dataclass(frozen=True)
class Door:
    """A framework's front door, and the core behind it."""

    core: FairQueue
    send: Callable[..., Any]
    """Sends a job of the task ``work`` for a workspace; more arguments are the framework's."""
    told: Callable[[Any], Any]
    """What became of something sent under a key."""
    queue: str

    def take(self, n: int = 20) -> list[Lease]:
        return list(self.core.claim([self.queue], n).leases)


class Operating:
    """Tests that each framework's module inherits, and gives a door."""

    @pytest.mark.parametrize("kind", ["queue", "task", "workspace", "everything"])
    def test_pause_drain_and_purge(self, door: Door, kind: str) -> None:
        """Of a queue, a task, a workspace or everything."""
        named = {"queue": door.queue, "task": "work", "workspace": "ada"}
        place: Any = {kind: named[kind]} if kind in named else {}
        for _ in range(3):
            door.send("ada")
        door.core.pause(**place)
        assert door.take() == []
        door.core.drain(**place)
        with pytest.raises(CapacityExceeded):
            door.send("ada")
        (lease,) = door.take(1)
        door.core.resume(**place)
        door.send("ada")
        assert door.core.purge(**place) == 3
        assert door.core.depth(door.queue) == 0
        door.core.ack(lease)

    def test_dead_letters(self, door: Door) -> None:
        """The youngest are kept, shown, dropped, and replayed at a pace into a full workspace."""
        for _ in range(5):
            door.send("ada")
        leases = door.take(5)
        for lease in leases:
            door.core.reject(lease, reason="bad")
        letters = door.core.dead_letters("ada")
        assert [letter.job.id for letter in letters] == [lease.job.id for lease in leases[2:]]
        last = letters[-1].job
        found = door.core.dead_letter("ada", last.id)
        assert found is not None
        assert (found.reason, found.job.task) == ("bad", "work")

        assert door.core.purge_dead("ada", last.id) == 1
        door.core.set_limits("ada", capacity=0)
        assert door.core.replay_all("ada", per_second=0.01) == 2
        (lease,) = door.take()
        assert (lease.job.id, lease.job.workspace) == (letters[0].job.id, "ada")
        (row,) = door.core.stats().workspaces
        assert (row.scheduled, row.dead) == (1, 0)
        door.core.ack(lease)

    def test_what_is_dead_is_replaced_under_its_key(self, door: Door) -> None:
        """It does not block its key."""

        def publish() -> Outcome:
            outcome: Outcome = door.told(door.send("ada", unique_key="k")).outcome
            return outcome

        assert publish() is Outcome.CREATED
        (lease,) = door.take()
        assert publish() is Outcome.EXISTING
        door.core.reject(lease, reason="bad")
        assert publish() is Outcome.REPLACED
