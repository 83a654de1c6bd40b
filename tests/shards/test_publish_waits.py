"""A publish waits for a workspace that moves to another shard, and holds up no others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fairqueue import FairQueue, StoreUnavailable
from fairqueue._publish.new_job import NewJob
from fairqueue._shards.placement import shard_of
from fairqueue._stores.sharded import mover, shards
from fairqueue._stores.sharded.carrier import Move
from fairqueue._stores.store import Store
from fairqueue.testing import ManualClock
from tests.shards.conftest import Namespace
from tests.shards.test_reshard import FROM, NAMES, TO

MOVING = next(name for name in NAMES if shard_of(name, FROM) != shard_of(name, TO))
STAYS = next(name for name in NAMES if shard_of(name, FROM) == shard_of(name, TO))


class Pauses:
    """What happens while a publish pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept: list[float] = []
        self.then: Callable[[], object] = lambda: None
        self.after = 1
        monkeypatch.setattr(shards, "PAUSES_SECONDS", (0.01, 0.02, 0.03))
        self._others, self._thread = time.sleep, threading.current_thread()
        monkeypatch.setattr("time.sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        """Move on instead; threads of other tests do sleep."""
        if threading.current_thread() is not self._thread:
            self._others(seconds)
            return
        self.slept.append(seconds)
        if len(self.slept) == self.after:
            self.then()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Pauses that are not slept."""
    return Pauses(monkeypatch)


class _Killed(mover.Mover):
    """Moves one workspace only."""

    def _leaving(self, source: Store, shards: int, *, stays: bool = False) -> Iterator[Move]:
        leaving = super()._leaving(source, shards, stays=stays)
        return (move for move in leaving if move.workspace == MOVING)


def _kill(_: int) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def moving(processes: Namespace, pauses: Pauses, clock: ManualClock) -> FairQueue:
    """A process that publishes while another one is killed in the middle of a move."""
    queue = processes.open(FROM)
    for name in NAMES:
        queue.publish(b"", queue="q", workspace=name, task="t", job_id=f"{name}-old")
    killed = processes.open(FROM)
    with pytest.raises(KeyboardInterrupt):
        _Killed(killed.store, TO, wait_seconds=60, progress=_kill).run()
    clock.advance(31)  # it is forgotten
    pauses.then = lambda: processes.open(FROM).doctor.reshard(TO)
    queue.store.look()
    return queue


def jobs_of(processes: Namespace) -> list[str]:
    """Name all jobs, wherever they are."""
    queue = processes.open(TO)
    found = []
    while leases := queue.claim(["q"], 100).leases:
        found += [lease.job.id for lease in leases]
        for lease in leases:
            queue.ack(lease)
    return sorted(found)


def new_jobs(names: list[str]) -> list[NewJob]:
    """Make a job for each of these workspaces."""
    return [
        NewJob(b"", queue="q", workspace=name, task="t", job_id=f"new-{n}")
        for n, name in enumerate(names)
    ]


OLD = [f"{name}-old" for name in NAMES]


def test_a_publish_waits(processes: Namespace, pauses: Pauses, moving: FairQueue) -> None:
    """It is stored where the workspace has moved to."""
    moving.publish(b"", queue="q", workspace=MOVING, task="t", job_id="new")
    assert pauses.slept == [0.01]
    assert jobs_of(processes) == sorted([*OLD, "new"])


def test_it_does_not_wait_for_ever(pauses: Pauses, moving: FairQueue) -> None:
    """After the last pause the error of an outage is raised, with the reason."""
    pauses.after = 99
    with pytest.raises(StoreUnavailable, match=rf"'{MOVING}' moves to another shard"):
        moving.publish(b"", queue="q", workspace=MOVING, task="t")
    assert pauses.slept == [0.01, 0.02, 0.03]


def test_of_many_jobs_only_those_wait(
    processes: Namespace, pauses: Pauses, moving: FairQueue
) -> None:
    """Others are stored at once, and none is stored twice."""
    seen: list[int] = []
    end = pauses.then

    def then() -> None:
        seen.append(moving.store.depth("q"))
        end()

    pauses.then = then
    moving.publish_many(new_jobs([MOVING, STAYS, MOVING, STAYS]))
    assert pauses.slept == [0.01]
    assert seen == [len(NAMES) + 2]
    assert jobs_of(processes) == sorted([*OLD, *(f"new-{n}" for n in range(4))])
