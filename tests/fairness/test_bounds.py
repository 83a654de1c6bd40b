"""Bounds of the fair order that hold for any workload, checked on random ones."""

from __future__ import annotations

import random

import pytest

from fairqueue import Limits
from tests.fairness.fleet import Fleet, Fleets
from tests.fairness.metering import Full, Member, Meter, Rated, not_blocked
from tests.fairness.scenarios import exponential


def _start_random(fleet: Fleet, rnd: random.Random) -> list[Member]:
    """Start backlogs with random durations, weights and numbers of tasks."""
    members = [Member(name, rnd.choice([0.5, 1.0, 2.0, 4.0])) for name in "abc"]
    for name, weight in ((member.name, member.weight) for member in members):
        fleet.set_limits(name, Limits(weight=weight))
        for task in range(rnd.randint(1, 2)):
            lengths = exponential(rnd.choice([0.2, 1.0, 4.0]), rnd.randrange(1000))
            fleet.backlog(name, lengths, task=f"{name}-{task}", priority=rnd.randint(0, 1))
    return members


@pytest.mark.parametrize("seed", range(4))
def test_lag_is_bounded(fleets: Fleets, seed: int) -> None:
    """The service of two runnable workspaces differs by at most (D+1)(c_a/w_a + c_b/w_b)."""
    rnd = random.Random(seed)
    slots = rnd.choice([2, 5, 8])
    fleet = fleets([("q", slots)])
    meter = Meter(fleet)
    members = _start_random(fleet, rnd)
    fleet.until(5)
    window = meter.watch(115, members, not_blocked)
    assert len(window.pairs) == 3
    for pair in window.pairs:
        assert pair.lag <= pair.bound(slots, window.longest)


def test_a_new_workspace_does_not_wait_behind_a_backlog(fleets: Fleets) -> None:
    """A workspace that joins beside a long backlog gets the next free slots."""
    fleet = fleets([("q", 4)])
    fleet.publish("big", 1.0, n=300)
    fleet.until(30)
    fleet.publish("small", 1.0, n=4)
    fleet.until(34)
    assert len(fleet.waits["small"]) == 4
    assert max(fleet.waits["small"]) <= 3


def test_intermittent_load_earns_no_credit(fleets: Fleets) -> None:
    """A workspace with pauses in its load gets its share while it has jobs, and no more."""
    fleet = fleets()
    fleet.backlog("steady", 1.0)
    for start in range(0, 120, 4):
        fleet.at(start, lambda: fleet.publish("intermittent", 1.0, n=8))
    fleet.until(120)
    assert fleet.used["intermittent"] <= 30 * 8
    assert fleet.served["steady"] >= 0.5 * sum(fleet.served.values())


@pytest.mark.parametrize("seed", range(3))
def test_no_slot_is_free_beside_a_runnable_job(fleets: Fleets, seed: int) -> None:
    """With limits, rates, several queues and fleets, a runnable job starts within one wake-up."""
    rnd = random.Random(100 + seed)
    limits = {
        "a": Limits(concurrency=2),
        "b": Limits(rate=1.0, burst=2),
        "c": Limits(concurrency=1, weight=3),
    }
    fleet = fleets([("q1", 2), ("q1 q2", 4)], **limits)
    rated, full = Rated("b", limits["b"]), Full(a=2, c=1)
    meter = Meter(fleet, rated.note)

    def publish() -> None:
        seconds, queue = rnd.choice([0.3, 1.0, 2.5]), rnd.choice(["q1", "q2"])
        fleet.publish(rnd.choice("abcde"), seconds, queue=queue)

    for _ in range(120):
        fleet.at(rnd.uniform(0, 40), publish)
    window = meter.watch(50, [], lambda *of: rated(*of) or full(*of))
    assert window.unserved_seconds == 0
    fleet.until(120)
    assert sum(fleet.served.values()) == 120
