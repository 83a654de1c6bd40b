"""When a slot ends: both the ack and the end of the run are in, in whichever order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fairqueue import FairQueue, StoreUnavailable
from fairqueue_celery.pace import Pace
from fairqueue_celery.runs import runs
from fairqueue_celery.slot import Slot, Verdict
from fairqueue_celery.slots import Slots


class Request:
    """As much of a Celery request as a slot looks at."""

    def __init__(self, *, acknowledged: bool = False, acks_late: bool = True) -> None:
        self.acknowledged = acknowledged
        self.task = SimpleNamespace(acks_late=acks_late)


@pytest.fixture
def core(redis_url: str, namespace: str) -> Iterator[FairQueue]:
    with FairQueue(redis_url, namespace=namespace, workspace_concurrency=1) as core:
        yield core


@pytest.fixture
def slots(core: FairQueue) -> Slots:
    return Slots(core)


@pytest.fixture
def slot(core: FairQueue, slots: Slots) -> Slot:
    """A delivered job of a workspace that may run one at a time; a second one waits."""
    for n in range(2):
        core.publish(b"%d" % n, queue="q", workspace="ada")
    [lease] = core.claim(["q"], 5).leases
    return slots.open(lease, None, "pool")


def begin(slots: Slots, slot: Slot, *, acknowledged: bool = False) -> None:
    slot.request = Request(acknowledged=acknowledged)
    slots.start(slot, time.monotonic())


def state(core: FairQueue) -> dict[str, int]:
    [row] = core.stats().workspaces
    return {"waiting": row.waiting, "running": row.running, "dead": row.dead, "lost": row.lost}


def test_an_early_ack_keeps_the_slot_until_the_end(
    core: FairQueue, slots: Slots, slot: Slot
) -> None:
    """Acked, and running on: the slot is held; ended: it is free."""
    begin(slots, slot)
    slots.decide(slot.fence, Verdict.ACK)
    slots.flush()
    assert not core.claim(["q"]).leases
    assert slots.in_hand("pool") == 1

    slots.end(slot)
    slots.flush()

    assert slots.in_hand("pool") == 0
    assert len(core.claim(["q"]).leases) == 1


def test_an_end_waits_for_its_ack(core: FairQueue, slots: Slots, slot: Slot) -> None:
    """Ended, with an ack on its way: nothing is given back, and the ack finishes it."""
    begin(slots, slot, acknowledged=True)
    slots.end(slot)
    slots.flush()
    assert state(core)["running"] == 1

    slots.decide(slot.fence, Verdict.ACK)
    slots.flush()

    assert state(core) == {"waiting": 1, "running": 0, "dead": 0, "lost": 0}


def test_both_in_one_trip(slots: Slots, slot: Slot) -> None:
    """Where ack and end come together, one ending is told."""
    begin(slots, slot)
    slots.decide(slot.fence, Verdict.ACK)
    slots.end(slot)

    assert [finish.ending.value for finish in slots.take()] == ["ack"]


def test_an_ack_before_the_start_frees_at_once(core: FairQueue, slots: Slots, slot: Slot) -> None:
    """A revoked or expired job is acked without having run."""
    slot.request = Request()
    slots.decide(slot.fence, Verdict.ACK)
    slots.flush()

    assert state(core)["running"] == 0


def test_requeue_waits_for_the_end(core: FairQueue, slots: Slots, slot: Slot) -> None:
    """A hard time limit requeues while the process still runs: given back only when it is gone."""
    begin(slots, slot, acknowledged=True)
    slots.decide(slot.fence, Verdict.REQUEUE)
    slots.flush()
    assert state(core)["running"] == 1

    slots.end(slot)
    slots.flush()

    assert state(core) == {"waiting": 2, "running": 0, "dead": 0, "lost": 0}


@pytest.mark.parametrize("begun", [True, False])
def test_an_early_acked_run_is_not_repeated_before_its_ack_was_read(
    core: FairQueue, slots: Slots, slot: Slot, *, begun: bool
) -> None:
    """A child killed at once: the ack still lies in its pipe, but the run's first line did run."""
    slot.request = Request(acks_late=False)
    if begun:
        runs.begin(slot.fence)
    slots.end(slot)
    slots.flush()

    assert state(core) == {"waiting": 1 if begun else 2, "running": 0, "dead": 0, "lost": 0}


def test_a_run_that_was_cut_off_goes_back(core: FairQueue, slots: Slots, slot: Slot) -> None:
    """Ended, and nobody will ack it: it waits again, and burns no delivery."""
    begin(slots, slot)
    slots.end(slot)
    slots.flush()

    assert state(core)["waiting"] == 2
    assert core.claim(["q"]).leases[0].deliveries == 1


def test_a_drop_is_dead(core: FairQueue, slots: Slots, slot: Slot) -> None:
    """Rejected without requeue: among the dead."""
    begin(slots, slot, acknowledged=True)
    slots.decide(slot.fence, Verdict.DROP)
    slots.end(slot)
    slots.flush()

    assert state(core) == {"waiting": 1, "running": 0, "dead": 1, "lost": 0}


def test_endings_survive_a_failed_trip(
    core: FairQueue, slots: Slots, slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be told stays pending, and is told later."""
    begin(slots, slot)
    slots.decide(slot.fence, Verdict.ACK)
    slots.end(slot)

    def away(*_: Any) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(core, "finish", away)
        with pytest.raises(StoreUnavailable):
            slots.flush()
    assert slots.pending == 1
    slots.flush()

    assert state(core)["running"] == 0


def test_a_second_ack_changes_nothing(core: FairQueue, slots: Slots, slot: Slot) -> None:
    """An ack after the end of all is a no-op, also when another job has come meanwhile."""
    slots.decide(slot.fence, Verdict.ACK)
    slots.flush()

    assert slots.decide(slot.fence, Verdict.ACK) is False
    assert slots.pending == 0
    assert state(core)["waiting"] == 1


@pytest.mark.parametrize(
    ("seconds", "processes", "ahead"),
    [(10.0, 4, 0), (0.02, 4, 1), (0.001, 4, 16), (0.0001, 1, 8), (0.004, 1, 1)],
)
def test_only_what_starts_in_a_moment_is_claimed_ahead(
    seconds: float, processes: int, ahead: int
) -> None:
    """Within 5 ms, by the mean of durations, and never more than four per process, or eight."""
    pace = Pace(0.005)
    for _ in range(200):
        pace.took(seconds)
    assert pace.ahead(processes) == ahead


def test_nothing_is_claimed_ahead_without_experience_or_when_switched_off() -> None:
    """No duration known yet, or claim_ahead_seconds 0: none."""
    fast = Pace(0.0)
    fast.took(0.0001)
    assert (Pace(0.005).ahead(4), fast.ahead(4)) == (0, 0)
