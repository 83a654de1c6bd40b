"""The short ways and the general ones do the same: replies and keys are compared after each call.

The random moves compare them, too, but mostly beside limits, which close the short way of a claim.
"""

from __future__ import annotations

from random import Random

import pytest

from fairqueue import Job, Lease
from fairqueue._stores.engine import Entry
from fairqueue._stores.memory import Database, MemoryEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Claimed, Finish
from fairqueue.audit.checks import audit
from fairqueue.testing import ManualClock
from tests.short_ways import SHORT_WAYS, without_short_ways

STEPS = 400
LEASE_SECONDS = 30.0


class Pair:
    """One store that takes the short ways, and one that does not."""

    def __init__(self, seed: int) -> None:
        self.random, self.clock = Random(seed), ManualClock()
        engines = (
            MemoryEngine(Database(random=Random(seed))),
            MemoryEngine(Database(random=Random(seed)), read=without_short_ways),
        )
        self.stores = [Store(engine, clock=self.clock) for engine in engines]
        self.held: list[Lease] = []
        self.number = 0

    def publish(self, n: int) -> None:
        """Publish one job to some workspace, mostly of one task."""
        workspace = self.random.choice("aaabbc")
        task, priority = self.random.choice("ttttu"), self.random.choice([0] * 9 + [3])
        job = Job(f"j{n}", workspace, "q", task, b"x", priority)
        admission = Admission(is_new=self.random.random() < 0.5)
        one, other = (store.publish(job, admission) for store in self.stores)
        assert one == other

    def claim(self) -> None:
        """Finish some jobs, mostly one, and claim as many."""
        n = self.random.choice([1, 1, 1, 1, 1, 2])
        done, self.held = self.held[:n], self.held[n:]
        finishes = [Finish(lease.fence, seconds=self.random.random() / 99) for lease in done]
        self.number += 1
        one, other = (self._claim(store, n, finishes) for store in self.stores)
        assert _told(one) == _told(other)
        self.held += one.leases

    def _claim(self, store: Store, n: int, finishes: list[Finish]) -> Claimed:
        return store.claim(
            owner="w1",
            number=self.number,
            queues=["q"],
            n=n,
            lease_seconds=LEASE_SECONDS,
            max_deliveries=5,
            finishes=finishes,
        )

    def keys(self) -> list[list[Entry]]:
        """All keys of both."""
        return [sorted(store.engine.dump()) for store in self.stores]


def _told(claimed: Claimed) -> tuple[object, ...]:
    """All but when it was sent."""
    leases = [(each.job, each.fence, each.deliveries, each.redelivered) for each in claimed.leases]
    return leases, claimed.lost, claimed.wait_seconds


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairqueue._stores.polling.JITTER", (1.0, 1.0))


@pytest.mark.parametrize("seed", range(6))
def test_short_and_general_ways_do_the_same(seed: int) -> None:
    """Replies and all keys are equal after each step, and the invariants hold."""
    pair = Pair(seed)
    for n in range(STEPS):
        if pair.random.random() < 0.52:
            pair.publish(n)
        else:
            pair.claim()
        pair.clock.advance(pair.random.choice([0.001, 0.01, 0.04, 0.04, 0.3]))
        one, other = pair.keys()
        assert one == other, n
        assert audit(pair.stores[0].engine, now=pair.clock()) == []


def test_what_closes_the_short_ways_is_in_the_scripts() -> None:
    """Each edit finds its text; else the general way would be compared with itself."""
    for name in SHORT_WAYS:
        assert without_short_ways(name)
