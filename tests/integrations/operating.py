"""Operations on the jobs of any framework, on a real Redis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fairqueue import CapacityExceeded, FairQueue, Lease, Outcome


@dataclass(frozen=True)
class Door:
    """A framework's way to publish, and the core behind it."""

    core: FairQueue
    send: Callable[..., Any]
    """Sends a job of the task ``work`` for a workspace, with the framework's own arguments."""
    told: Callable[[Any], Any]
    """The outcome of a publish with a unique key."""
    queue: str

    def take(self, n: int = 20) -> list[Lease]:
        return list(self.core.claim([self.queue], n).leases)


class Operating:
    """Tests that each framework's module inherits and supplies with a door."""

    @pytest.mark.parametrize("kind", ["queue", "task", "workspace", "everything"])
    def test_pause_drain_and_purge(self, door: Door, kind: str) -> None:
        """They act on a queue, a task, a workspace or everything."""
        named = {"queue": door.queue, "task": "work", "workspace": "ada"}
        place: Any = {kind: named[kind]} if kind in named else {}
        for _ in range(3):
            door.send("ada")
        door.core.admin.pause(**place)
        assert door.take() == []
        door.core.admin.drain(**place)
        with pytest.raises(CapacityExceeded):
            door.send("ada")
        (lease,) = door.take(1)
        door.core.admin.resume(**place)
        door.send("ada")
        assert door.core.admin.purge(**place) == 3
        assert door.core.depth(door.queue) == 0
        door.core.ack(lease)

    def test_dead_letters(self, door: Door) -> None:
        """The youngest are kept; they are listed, dropped, or replayed into a full workspace."""
        for _ in range(5):
            door.send("ada")
        leases = door.take(5)
        for lease in leases:
            door.core.reject(lease, reason="bad")
        letters = door.core.admin.dead_letters("ada")
        assert [letter.job.id for letter in letters] == [lease.job.id for lease in leases[2:]]
        last = letters[-1].job
        found = door.core.admin.dead_letter("ada", last.id)
        assert found is not None
        assert (found.reason, found.job.task) == ("bad", "work")

        assert door.core.admin.purge_dead("ada", last.id) == 1
        door.core.admin.set_limits("ada", capacity=0)
        assert door.core.admin.replay_all("ada", per_second=0.01) == 2
        (lease,) = door.take()
        assert (lease.job.id, lease.job.workspace) == (letters[0].job.id, "ada")
        (row,) = door.core.admin.stats().workspaces
        assert (row.scheduled, row.dead) == (1, 0)
        door.core.ack(lease)

    def test_a_dead_job_does_not_block_its_unique_key(self, door: Door) -> None:
        """A new job with the key is accepted."""

        def publish() -> Outcome:
            outcome: Outcome = door.told(door.send("ada", unique_key="k")).outcome
            return outcome

        assert publish() is Outcome.CREATED
        (lease,) = door.take()
        assert publish() is Outcome.EXISTING
        door.core.reject(lease, reason="bad")
        assert publish() is Outcome.REPLACED
