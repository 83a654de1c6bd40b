"""The short way of a publish and the general one do the same: replies and keys are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

import pytest

from fairqueue import CapacityExceeded, Job, Lease, Limits, Pause
from fairqueue._stores.engine import Entry
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Claimed, Finish
from fairqueue.audit import audit
from fairqueue.testing import ManualClock
from tests.failing_commands import FailingDatabase
from tests.short_ways import SHORT_WAYS, without_short_ways

STEPS = 400
LEASE_SECONDS = 30.0
OF_THE_SHORT_WAY = "RPUSHX"
"""A command that only the short way of a publish runs."""

LIMITS = {
    "none": {},
    "of all": {"default": Limits(concurrency=2, capacity=9)},
    "of some": {
        "workspace a": Limits(concurrency=3, weight=2.5),
        "workspace b": Limits(weight=0.5),
    },
    "of many": {f"workspace w{n}": Limits(concurrency=5) for n in range(40)}
    | {"workspace a": Limits(concurrency=2)},
    "of all and one": {"default": Limits(concurrency=3), "workspace c": Limits(concurrency=1)},
}


class Pair:
    """One store that takes the short way, and one that does not."""

    def __init__(self, seed: int, limits: Mapping[str, Limits]) -> None:
        self.random, self.clock = Random(seed), ManualClock()
        databases = [FailingDatabase(self.clock, random=Random(seed)) for _ in range(2)]
        engines = (
            MemoryEngine(databases[0]),
            MemoryEngine(databases[1], read=without_short_ways),
        )
        self.stores = [Store(engine, clock=self.clock) for engine in engines]
        for where, set_there in limits.items():
            scope, _, name = where.partition(" ")
            for store in self.stores:
                store.set_limits(scope, name, set_there)
        self.short = [0, 0]
        for which, database in enumerate(databases):
            database.deny(partial(self._note, which))
        self.held: list[Lease] = []
        self.number = 0

    def _note(self, which: int, _n: int, name: str) -> bool:
        self.short[which] += name == OF_THE_SHORT_WAY
        return False

    def publish(self, n: int) -> None:
        """Publish one job to some workspace, mostly of one task; it may be rejected."""
        workspace = self.random.choice("aaabbc")
        task, priority = self.random.choice("ttttu"), self.random.choice([0] * 9 + [3])
        job = Job(f"j{n}", workspace, "q", task, b"x", priority)
        admission = Admission(is_new=self.random.random() < 0.5)
        one, other = (_outcome(partial(store.publish, job, admission)) for store in self.stores)
        assert one == other

    def pause(self) -> None:
        """Pause the queue, or everything, for a moment."""
        scope, name = self.random.choice([("queue", "q"), ("total", "")])
        for how in (Pause.PAUSED, None):
            self.clock.advance(0.5)
            for store in self.stores:
                store.pause(scope, name, how)

    def claim(self) -> None:
        """Finish some jobs, mostly one, and claim mostly as many."""
        k = self.random.choice([0, 1, 1, 1, 1, 2, 4, 8])
        n = self.random.choice([k, k, k, 1])
        self.random.shuffle(self.held)
        done, self.held = self.held[:k], self.held[k:]
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


def _outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except CapacityExceeded as full:
        return full.waiting


def _told(claimed: Claimed) -> tuple[object, ...]:
    """All but when it was sent."""
    leases = [
        (one.job, one.fence, one.deliveries, one.redelivered, one.runnable_seconds)
        for one in claimed.leases
    ]
    return leases, claimed.lost, claimed.wait_seconds


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairqueue._stores.waiter.JITTER", (1.0, 1.0))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("limits", LIMITS)
def test_short_and_general_ways_do_the_same(limits: str, seed: int) -> None:
    """Replies and all keys are equal after each step, and the invariants hold."""
    pair = Pair(seed, LIMITS[limits])
    for n in range(STEPS):
        if pair.random.random() < 0.02:
            pair.pause()
        elif pair.random.random() < 0.62:
            pair.publish(n)
        else:
            pair.claim()
        pair.clock.advance(pair.random.choice([0.001, 0.01, 0.04, 0.04, 0.3]))
        one, other = pair.keys()
        assert one == other, n
        assert audit(pair.stores[0].engine, now=pair.clock()) == []
    short, of_the_general = pair.short
    assert short > STEPS / 10, "the short way was hardly taken"
    assert of_the_general == 0


def test_what_closes_the_short_ways_is_in_the_scripts() -> None:
    """Each edit finds its text; else the general way would be compared with itself."""
    for name in SHORT_WAYS:
        assert without_short_ways(name)
