"""The rate of a task over several shards: in no window do more start, wherever workspaces live."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from fairqueue import Limits
from fairqueue._shards import shard_of
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.sharded.quotas import Quotas
from fairqueue._types import StoredLimits
from fairqueue.audit import audit
from tests.contract.world import Worker
from tests.shards.conftest import SHARDS, Both

HOMES = [
    next(name for name in map("w{}".format, count()) if shard_of(name, SHARDS) == number)
    for number in range(SHARDS)
]
RATE = "rate:task:t"


class Runs:
    """Busy workspaces on each shard, and every start of their jobs."""

    def __init__(self, both: Both) -> None:
        self.both, self.store, self.clock = both, both.sharded, both.clock
        self.quotas = Quotas(lambda: both.sharded.shards, clock=both.clock)
        self.workers = [Worker(shard, "w") for shard in both.sharded.shards]
        self.starts: list[tuple[float, int]] = []

    def publish(self, number: int, n: int) -> None:
        for _ in range(n):
            self.both.world_of(HOMES[number]).publish(HOMES[number], task="t")

    def claim(self, number: int) -> int:
        """Start and end what may start on a shard."""
        worker, started = self.workers[number], 0
        while leases := worker.take(10):
            started += len(leases)
            for lease in leases:
                worker.finish(lease)
        self.starts += [(self.clock(), number)] * started
        return started

    def go_on(self, seconds: float, *, tick: float, numbers: Iterator[int] | Any = range(3)) -> int:
        """Claim everywhere with each tick, and move quotas twice a second; how many started."""
        begun, look = len(self.starts), 0.0
        for _ in range(round(seconds / tick)):
            self.clock.advance(tick)
            look += tick
            for number in numbers:
                self.claim(number)
            if look >= 0.5 - 1e-9:
                look = 0.0
                self.quotas.move()
        return len(self.starts) - begun

    def of_each(self, since: float = 0.0) -> list[int]:
        """How many have started on each shard."""
        return [sum(n == number and at >= since for at, n in self.starts) for number in range(3)]

    def check(self, rate: float, burst: float, *, since: float = 0.0) -> None:
        """In no window have more started than a single shard would let start."""
        tat = 0.0
        for at, _ in sorted(self.starts):
            if at > since:
                assert at >= tat - (burst - 1) / rate - 1e-4, (at, tat)
                tat = max(at, tat) + 1 / rate

    def audit(self) -> None:
        """Every invariant holds on each shard."""
        for shard in self.store.shards:
            assert audit(shard.engine, now=self.clock()) == []


@pytest.fixture
def runs(both: Both) -> Iterator[Runs]:
    """At the end every invariant holds on each shard."""
    found = Runs(both)
    yield found
    found.audit()


PACES = {
    "slow": (1 / 6, 1.0, 300.0, 0.5),
    "slow_burst": (1 / 6, 4.0, 300.0, 0.5),
    "one": (1.0, 1.0, 60.0, 0.05),
    "fast": (20.0, 1.0, 30.0, 0.05),
    "fast_burst": (100.0, 50.0, 10.0, 0.05),
    "two": (2.0, 2.5, 60.0, 0.05),
}


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("both", ["memory"], indirect=True)
def test_busy_shards_use_the_whole_rate_and_share_it(runs: Runs, pace: str) -> None:
    """All of it, in no window more, and each shard its part."""
    rate, burst, seconds, tick = PACES[pace]
    runs.store.set_limits("task", "t", Limits(rate=rate, burst=burst))
    for number in range(SHARDS):
        runs.publish(number, int(rate * seconds) + 60)
    runs.quotas.move()
    begun = runs.clock()
    started = runs.go_on(seconds, tick=tick)
    runs.check(rate, burst)
    assert started >= 0.9 * rate * seconds
    assert min(runs.of_each(begun)) >= 0.7 * max(runs.of_each(begun))


@pytest.mark.parametrize(("rate", "burst"), [(1 / 6, 1.0), (0.5, 6.0), (20.0, 1.0), (20.0, 30.0)])
def test_one_busy_shard_has_the_whole_rate(runs: Runs, rate: float, burst: float) -> None:
    """Also what idle shards had, with their tokens."""
    runs.store.set_limits("task", "t", Limits(rate=rate, burst=burst))
    runs.quotas.move()
    runs.publish(2, 100)
    seconds = min(60 / rate, 60.0)
    started = runs.go_on(seconds, tick=0.05)
    runs.check(rate, burst)
    assert started >= 0.9 * (rate * (seconds - 0.5) + burst) - 1


def test_a_newcomer_on_another_shard_has_its_turn(runs: Runs) -> None:
    """With a slow rate: after the next start, and then every other one."""
    runs.store.set_limits("task", "t", Limits(rate=1 / 6))
    runs.publish(0, 40)
    runs.go_on(30, tick=0.1)
    runs.publish(1, 20)
    came = runs.clock()
    runs.go_on(60, tick=0.1)
    assert runs.of_each(came) in ([5, 5, 0], [5, 4, 0], [4, 5, 0], [4, 6, 0], [6, 4, 0])
    assert next(at for at, n in runs.starts if n == 1) - came <= 13
    runs.check(1 / 6, 1)


def test_a_job_on_an_idle_shard_starts_with_the_next_look(runs: Runs) -> None:
    """The one token comes to it, wherever it is."""
    runs.store.set_limits("task", "t", Limits(rate=1 / 600))
    for number in range(SHARDS):
        runs.clock.advance(601)
        runs.publish(number, 1)
        assert runs.go_on(1, tick=0.5) == 1
    runs.check(1 / 600, 1)


def test_jobs_that_no_worker_claims_hold_nothing_for_long(runs: Runs) -> None:
    """As of a queue without a worker."""
    runs.store.set_limits("task", "t", Limits(rate=10.0))
    for number in range(SHARDS):
        runs.publish(number, 600)
    runs.quotas.move()
    assert runs.go_on(60, tick=0.05, numbers=[1]) >= 0.6 * 600
    runs.check(10, 1)


def test_live_limits_change(runs: Runs) -> None:
    """A raise, a lowering, none at all, and one again."""
    for number in range(SHARDS):
        runs.publish(number, 500)
    for rate, burst in ((10.0, 10.0), (10.0, 1.0), (1.0, 1.0), (20.0, 5.0), (2.0, 8.0)):
        runs.store.set_limits("task", "t", Limits(rate=rate, burst=burst))
        begun = runs.clock()
        started = runs.go_on(10, tick=0.05)
        runs.check(rate, burst, since=begun)
        runs.audit()
        assert started >= 0.8 * rate * 10 - 1
    runs.store.set_limits("task", "t", None)
    assert runs.claim(1) > 100
    runs.audit()
    runs.store.set_limits("task", "t", Limits(rate=2.0, burst=2.0))
    begun = runs.clock()
    assert runs.go_on(20, tick=0.05) >= 36
    runs.check(2, 2, since=begun)


def test_a_configured_rate_holds(runs: Runs) -> None:
    """As it does where it is set live."""
    stored = StoredLimits(tasks={"t": Limits(rate=2.0, burst=3.0)})
    runs.store.configure(stored, authoritative=True)
    for number in range(SHARDS):
        runs.publish(number, 100)
    assert runs.go_on(20, tick=0.1) >= 36
    runs.check(2, 3)


def test_people_see_the_whole_rate(runs: Runs) -> None:
    """As it was set, and not the part of a shard."""
    runs.store.set_limits("task", "t", Limits(rate=0.1, burst=2.0))
    for number in range(SHARDS):
        runs.publish(number, 10)
    runs.go_on(3, tick=0.5)
    assert runs.store.get_limits("task", "t")[0].limits == Limits(rate=0.1, burst=2.0)
    [row] = [row for page in runs.store.stored_limits() for row in page]
    assert row.limits == {"rate": 0.1, "burst": 2.0}
    [task] = [row for page in runs.store.tasks() for row in page]
    assert (task.rate, task.burst) == (0.1, 2.0)
    for name in HOMES:
        [blocker] = runs.store.why(workspace=name, job_id=None, queue=None).blockers
        assert (blocker.kind, blocker.scope, blocker.limit) == ("rate", "task", 0.1)


def test_a_rate_that_is_only_observed_holds_nothing_back(runs: Runs) -> None:
    """What it would have held back is counted."""
    stored = StoredLimits(tasks={"t": Limits(rate=1.0, burst=2.0)}, enforced=False)
    runs.store.configure(stored, authoritative=True)
    for number in range(SHARDS):
        runs.publish(number, 4)
    runs.quotas.move()
    assert sum(map(runs.claim, range(SHARDS))) == 12
    seen = [runs.store.why(workspace=each, job_id=None, queue=None).observed for each in HOMES]
    assert sum((each or {}).get("rate.task", 0) for each in seen) == 10


def test_a_shard_that_is_away_keeps_its_part(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, servers_apart: None
) -> None:
    """The others have the rest."""
    runs.store.set_limits("task", "t", Limits(rate=3.0, burst=3.0))
    for number in range(SHARDS):
        runs.publish(number, 200)
    runs.go_on(5, tick=0.1)
    away = runs.store.shards[2]
    monkeypatch.setattr(away, "quota_needs_from", _refuses)
    before = runs.of_each()
    for _ in range(40):
        with suppress(ConnectionError):
            runs.go_on(0.5, tick=0.1, numbers=[0, 1])
    after = runs.of_each()
    assert 36 <= sum(after) - sum(before) <= 42
    monkeypatch.undo()
    runs.go_on(10, tick=0.1)
    runs.check(3, 3)


def _refuses(*_: Any, **__: Any) -> None:
    raise ConnectionError


class _Died(BaseException):
    """The process that moved quotas is no more."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("both", ["memory"], indirect=True)
def test_no_more_start_if_a_process_dies(
    runs: Runs, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps; what it has sent may come late or twice; and all comes back."""
    rng, dies, call = random.Random(seed), [False], MemoryEngine.call
    late: list[tuple[MemoryEngine, str, Mapping[str, Any]]] = []
    mine = [shard.engine for shard in runs.store.shards]  # other tests' may still be alive
    rate, burst = rng.choice([(1.0, 1.0), (0.2, 2.0), (5.0, 4.0), (50.0, 7.0)])

    def failing(engine: MemoryEngine, operation: str, /, **arguments: Any) -> Any:
        fails = dies[0] and engine in mine and "quota" in operation and rng.random() < 0.15
        if not fails:
            return call(engine, operation, **arguments)
        late.append((engine, operation, arguments))
        if rng.random() < 0.5:
            call(engine, operation, **arguments)
        raise _Died

    runs.store.set_limits("task", "t", Limits(rate=rate, burst=burst))
    monkeypatch.setattr(MemoryEngine, "call", failing)
    for _ in range(250):
        runs.clock.advance(rng.choice([0.01, 0.1, 0.3]) / min(rate, 1.0))
        what = rng.random()
        number = rng.randrange(SHARDS)
        if what < 0.2:
            runs.publish(number, rng.randrange(1, 4))
        elif what < 0.6:
            runs.claim(number)
        elif what < 0.7 and late:
            engine, operation, arguments = rng.choice(late)
            # at the time of its arrival: an earlier one would be a clock that went back
            call(engine, operation, **{**arguments, "now": repr(runs.clock())})
        else:
            dies[0] = True
            with suppress(_Died):
                (runs.quotas if what < 0.8 else Quotas(lambda: runs.store.shards)).move()
            dies[0] = False
    for number in range(SHARDS):
        runs.publish(number, int(60 * rate / min(rate, 1.0)))
    runs.go_on(2 * burst / rate + 3, tick=0.1)
    assert runs.go_on(20 / min(rate, 1.0), tick=0.1) >= 0.85 * 20 * rate / min(rate, 1.0)
    runs.check(rate, burst)
