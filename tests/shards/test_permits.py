"""Limits wider than a shard: a job runs under a permit from the home of its limit."""

from __future__ import annotations

import select
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from fairqueue import Lease, Limits, Settings
from fairqueue._background import failures
from fairqueue._claim import claimers, permits
from fairqueue._claim.claimers import Claimers
from fairqueue._claim.permits import LIFE
from fairqueue._shards import order as shard_order
from fairqueue._shards.placement import SHARDS_MOST, shard_of
from fairqueue._stores import replies
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.permits import Change, PermitStore, adopted, home_of
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store
from fairqueue._types import Admission, Claimed, Finish, Job, StoredLimits
from fairqueue.audit import audit
from fairqueue.errors import StoreUnavailable
from fairqueue.operate import Operators
from fairqueue.testing import ManualClock
from tests.shards.conftest import SHARDS, living_on

LEASE_SECONDS = 60.0
HOME = home_of("total:")


class Process:
    """One process of a fleet: it claims, and ends what it runs."""

    def __init__(self, store: ShardedStore, queues: Sequence[str] = ("q",)) -> None:
        self.store, self.queues = store, queues
        self.claimers = Claimers(store, Settings(lease_seconds=LEASE_SECONDS))
        self.running: list[Lease] = []

    def claim(self, n: int = 100, ends: Sequence[Lease] = ()) -> Claimed:
        """Start what may start; what has ended is told in the same call."""
        finishes = [Finish(each.fence) for each in ends]
        self.running = [each for each in self.running if each not in ends]
        claimed = self.claimers.claim(self.queues, n, finishes)
        self.running += claimed.leases
        return claimed

    def start(self, n: int = 100) -> int:
        """Return how many jobs it has started, in as many calls as it takes."""
        before = len(self.running)
        while (left := n - len(self.running) + before) > 0:
            claimed = self.claim(left)
            if not claimed.leases and claimed.wait_seconds > 0:
                break
        return len(self.running) - before

    def end(self) -> Claimed:
        """End the oldest job, and claim another one."""
        return self.claim(1, self.running[:1])

    def renew(self) -> None:
        """Renew all that it runs."""
        self.claimers.renew(self.store, [(e.fence, 0.0) for e in self.running], self.claimers.owner)


class Fleet:
    """A store of three shards that several processes use."""

    def __init__(self, open_shard: Callable[[int], Store], clock: ManualClock) -> None:
        self.clock, self._open = clock, open_shard
        self.store = self.open()
        self._ids = count()
        self.published: list[str] = []
        self._names = [living_on(number) for number in range(SHARDS)]

    def open(self) -> ShardedStore:
        store = ShardedStore([self._open(number) for number in range(SHARDS)])
        store.check()
        return store

    def process(self, *queues: str) -> Process:
        return Process(self.open(), queues or ("q",))

    def publish(self, n: int = 1, *, shard: int | None = None, **job: Any) -> None:
        """Publish jobs of as many workspaces, on each shard or on one."""
        for number in range(SHARDS) if shard is None else [shard]:
            for _ in range(n):
                named = {"queue": "q", "task": "t", "payload": b"", **job}
                found = Job(str(next(self._ids)), next(self._names[number]), **named)
                self.store.publish(found, Admission())
                self.published.append(found.workspace)

    def permits(self, limit: str) -> int:
        return self.store.permits_used([limit])[limit]


@pytest.fixture
def fleet(
    new_engine: Callable[..., Engine], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Fleet]:
    """Three shards on each engine in turn; at the end the auditor finds nothing there."""
    for module in (permits, shard_order):
        monkeypatch.setattr(module, "monotonic", clock)
    fleet = Fleet(lambda number: Store(new_engine(shard=number), clock=clock), clock)
    yield fleet
    for store in fleet.store.shards:
        assert audit(store.engine, now=clock()) == []


WIDE = {
    "total": StoredLimits(total=Limits(concurrency=7)),
    "queue": StoredLimits(queues={"q": Limits(concurrency=7)}),
    "default": StoredLimits(queue_default=Limits(concurrency=7)),
    "task": StoredLimits(tasks={"t": Limits(concurrency=7)}),
}


@pytest.mark.parametrize("stored", WIDE.values(), ids=WIDE)
def test_a_limit_holds_over_all_shards(fleet: Fleet, stored: StoredLimits) -> None:
    """No more jobs run than it lets, and as many, whichever processes run them."""
    fleet.store.configure(stored, authoritative=True)
    fleet.publish(5)
    one, other = fleet.process(), fleet.process()
    assert one.start(4) == 4
    assert other.start() == 3
    assert one.start() == 0
    fleet.clock.advance(1.0)
    other.claim(0, other.running[:1])
    assert other.start() + one.start() == 1


@pytest.mark.parametrize("lost", range(SHARDS))
@pytest.mark.parametrize("stored", ["again", "live"])
def test_a_limit_holds_over_all_shards_after_one_has_lost_its_data(
    fleet: Fleet, stored: str, lost: int
) -> None:
    """The process that stores limits there says again that they are wider than the shard."""
    limits = StoredLimits(total=Limits(concurrency=3, capacity=30))
    fleet.store.configure(limits, authoritative=True)
    process, shard = fleet.process(), fleet.store.shards[lost]
    shard.engine.command("UNLINK", *(entry.key for entry in shard.engine.dump()))
    if stored == "again":
        shard.configure(limits, authoritative=False)
    else:
        fleet.store.set_limits("total", "", limits.total)
    fleet.publish(5)
    assert process.start() == 3


def test_what_is_refused_does_not_count(fleet: Fleet) -> None:
    """Its place, its delivery and the rate of its workspace are as if it had not been tried."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    fleet.store.set_limits("default", "", Limits(rate=0.001))
    fleet.store.set_limits("task", "t", Limits(workspace_rate=0.001))
    fleet.publish(1, shard=0)
    holder, other = fleet.process(), fleet.process()
    assert holder.start() == 1
    fleet.publish(1, shard=1)
    assert other.start() == 0
    fleet.clock.advance(1.0)
    holder.claim(0, holder.running[:1])
    assert other.start() == 1
    assert other.running[0].deliveries == 1
    assert not other.running[0].redelivered or other.running[0].declined == 0


def test_a_process_that_was_refused_is_woken(fleet: Fleet) -> None:
    """Its wait ends as soon as another one has ended a job."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    fleet.publish(1)
    holder, other = fleet.process(), fleet.process()
    assert holder.start() == 1
    assert other.start() == 0
    waiter = other.store.waiter(other.queues)
    waiter.arm(30)
    assert not select.select([waiter.fileno()], [], [], 0.05)[0]
    holder.claim(0, holder.running[:1])
    assert select.select([waiter.fileno()], [], [], 10)[0]
    waiter.collect()
    waiter.close()
    assert other.start() == 1


def test_queues_take_turns_where_the_total_is_full(fleet: Fleet) -> None:
    """A process that ends a job does not keep the slot for its own queue."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    processes = {queue: fleet.process(queue) for queue in "abc"}
    for queue in processes:
        fleet.publish(10, queue=queue)
    started = Counter[str]()
    for _ in range(60):
        for queue, process in processes.items():
            started[queue] += len(process.claim(1, process.running).leases)
        assert sum(len(process.running) for process in processes.values()) <= 1
        fleet.clock.advance(0.7)
    assert sum(started.values()) > 40
    assert max(started.values()) - min(started.values()) <= 3, started


def test_permits_of_a_dead_process_come_back(fleet: Fleet) -> None:
    """They end by themselves, a little after the leases; those of the living are renewed."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=4))
    fleet.publish(4)
    dead, alive, other = fleet.process(), fleet.process(), fleet.process()
    assert dead.start(2) == 2
    assert alive.start(2) == 2
    for _ in range(3):
        assert other.start() == 0
        fleet.clock.advance(LEASE_SECONDS / 3)
        alive.renew()
    fleet.clock.advance((LIFE - 1) * LEASE_SECONDS + 1)
    alive.renew()
    assert other.start() == 2


@pytest.mark.parametrize("answers", [True, False])
def test_a_job_that_ends_during_a_renewal_counts_no_more(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *, answers: bool
) -> None:
    """Also where its end waits to be told, and the renewal is of its lease, too."""
    fleet.store.set_limits("task", "t", Limits(concurrency=2))
    fleet.publish(2, shard=1)
    process, renew = fleet.process(), ShardedStore.renew
    assert process.start() == 2
    first, second = process.running

    def ends_meanwhile(*given: Any, **named: Any) -> Any:
        renewed = renew(*given, **named)
        process.claim(0, [second])
        return renewed

    if not answers:
        process.store.shards[1].engine.breaker.failed()
    process.claim(0, [first])
    monkeypatch.setattr(ShardedStore, "renew", ends_meanwhile)
    process.renew()
    fleet.clock.advance(1.0)
    process.claim(0)
    assert fleet.permits("task:t") == 0


def test_a_permit_that_a_renewal_puts_back_while_it_is_freed_counts_no_more(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The renewal's thread has still named it, and notes so while the call that frees it ends."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(2)
    process, permits = fleet.process(), PermitStore.permits
    assert process.start() == 2
    renews, is_freed = threading.Event(), threading.Event()
    renewal = threading.Thread(target=process.renew, daemon=True)

    def meet(self: PermitStore, changes: Sequence[Change] = (), **named: Any) -> Any:
        if "renewed" in named:
            renews.set()
            assert is_freed.wait(10)
            return permits(self, changes, **named)
        told = permits(self, changes, **named)
        is_freed.set()
        renewal.join(10)
        return told

    with monkeypatch.context() as patch:
        patch.setattr(PermitStore, "permits", meet)
        renewal.start()
        assert renews.wait(10)
        process.claim(0, process.running[:1])
    process.claim(0)
    assert fleet.permits("total:") == 1


def test_a_permit_that_was_lost_is_put_back(fleet: Fleet) -> None:
    """Its home has lost its writes: the next renewal counts the job again."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(2)
    process, other = fleet.process(), fleet.process()
    assert process.start() == 2
    home = fleet.store.shards[HOME].engine
    home.command("DEL", home.keys.key("permits", "total", ""))
    process.renew()
    assert fleet.permits("total:") == 2
    assert other.start() == 0


def refuse(monkeypatch: pytest.MonkeyPatch, *, done: bool = False) -> None:
    """Let no home answer, though it may have done what it was asked."""
    permits = PermitStore.permits

    def lose(self: PermitStore, *given: Any, **named: Any) -> Any:
        if done:
            permits(self, *given, **named)
        raise StoreUnavailable("away")

    monkeypatch.setattr(PermitStore, "permits", lose)


def test_a_home_that_is_away_stops_what_it_limits_alone(fleet: Fleet) -> None:
    """Running jobs go on, and so do others; after that the limit holds at once."""
    fleet.store.set_limits("task", "t", Limits(concurrency=2))
    fleet.publish(1)
    process, other = fleet.process(), fleet.process()
    assert process.start() == 2
    fleet.publish(1, task="free")
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch)
        assert other.start() == 3
        process.renew()
        other.renew()
    fleet.clock.advance(2.0)
    assert len(process.end().leases) == 1
    fleet.clock.advance(2.0)
    assert other.start() == 0


def test_jobs_whose_shards_are_all_away_count(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on, and the home of their limit answers: their permits are renewed there."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(2, shard=HOME - 1)
    process, other = fleet.process(), fleet.process()
    process.store.shards[0].engine.is_one_of_several = True
    assert process.start() == 2
    fleet.publish(1, shard=HOME)
    monkeypatch.setattr(Store, "renew", _is_away)
    for _ in range(4):
        with pytest.raises(StoreUnavailable):
            process.renew()
        fleet.clock.advance(LEASE_SECONDS / 2)
        assert other.start() == 0


def test_a_home_that_is_away_for_long_is_told_nothing_of_calls_that_were_not_sent(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would free permits that it never gave, and claims would take ever longer."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(3)
    process, permits, freed = fleet.process(), PermitStore.permits, list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(PermitStore, "permits", _is_away)
        for _ in range(5):
            process.start()
            fleet.clock.advance(2.0)
    assert failures()["permits"] >= 5

    def note(self: PermitStore, changes: Sequence[Change] = (), **named: Any) -> Any:
        freed.extend(permit for each in changes for permit in each.freed)
        return permits(self, changes, **named)

    monkeypatch.setattr(PermitStore, "permits", note)
    assert process.start() == 2
    assert freed == []


def _is_away(*_given: object, **_named: object) -> None:
    error = StoreUnavailable("away")
    error.may_be_stored = False
    raise error


def test_a_damaged_home_stops_what_it_limits_alone(fleet: Fleet) -> None:
    """A key of another type: jobs without that limit start, and leases are renewed."""
    fleet.store.set_limits("task", "t", Limits(concurrency=2))
    home = fleet.store.shards[home_of("task:t")].engine
    key = home.keys.key("permits", "task", "t")
    home.command("SET", key, "damaged")
    fleet.publish(1, task="free")
    fleet.publish(1)
    process = fleet.process()
    assert process.start() == 3
    process.renew()
    home.command("UNLINK", key)


def test_a_claim_that_was_interrupted_leaves_no_permit_behind(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs go back at the close, and others may start at once."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(2)
    process = fleet.process()

    def interrupt(*_given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Claimers, "_finish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            process.claim(2)
    process.claimers.close()
    assert fleet.permits("total:") == 0


@pytest.mark.parametrize(("patience_seconds", "calls"), [(0.0, 1), (60.0, 2 * SHARDS)])
def test_a_close_waits_for_a_silent_server_once(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, patience_seconds: float, calls: int
) -> None:
    """Each of its shards would wait for a time-out. One that fails at once is asked by each."""
    monkeypatch.setattr(claimers, "PATIENCE_SECONDS", patience_seconds)
    fleet.publish(1)
    process, asked = fleet.process(), list[int]()
    process.start()

    def ack(self: Store, **_named: object) -> None:
        asked.append(self.engine.shard)
        raise StoreUnavailable("silent")

    monkeypatch.setattr(Store, "ack", ack)
    with pytest.raises(StoreUnavailable):
        process.claimers.ack([Finish(each.fence) for each in process.running])
    asked.clear()
    process.claimers.close()
    assert len(asked) == calls


def test_a_home_that_comes_back_waits_for_renewals(fleet: Fleet) -> None:
    """Permits that ended while it was away count until they could have been renewed."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(2)
    process, other = fleet.process(), fleet.process()
    assert process.start() == 2
    fleet.clock.advance(3 * LEASE_SECONDS)
    assert other.start() == 0
    process.renew()
    fleet.clock.advance(LEASE_SECONDS)
    assert other.start() == 0


def test_permits_outlive_a_long_absence(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where Redis's clock jumps: the key of the permits expires by that, too."""
    monkeypatch.setattr(permits, "monotonic", clock)
    database = Database(clock=clock)
    fleet = Fleet(lambda number: Store(MemoryEngine(database, shard=number), clock=clock), clock)
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(2)
    process, other = fleet.process(), fleet.process()
    assert process.start() == 2
    clock.advance(4 * 3600.0)
    assert other.start() == 0


@pytest.mark.parametrize("done", [False, True])
def test_a_lost_reply_loses_no_slot(fleet: Fleet, *, done: bool) -> None:
    """What a home may have given is freed with the next call."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.publish(1)
    process = fleet.process()
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, done=done)
        assert process.start() == 0
    fleet.clock.advance(1.0)
    assert process.start() == 2
    assert fleet.permits("total:") == 2


def test_a_limit_that_comes_later_counts_what_runs(fleet: Fleet) -> None:
    """At once, and its owners renew that; each job that ends then makes room."""
    fleet.publish(3)
    process, other = fleet.process(), fleet.process()
    assert process.start(4) == 4
    fleet.store.set_limits("total", "", Limits(concurrency=4))
    assert other.start() == 0
    process.renew()
    fleet.clock.advance(40.0)
    process.renew()
    assert other.start() == 0
    process.claim(0, process.running[:1])
    process.renew()
    fleet.clock.advance(1.0)
    assert other.start() == 1


@pytest.mark.parametrize(
    ("scope", "name"), [("total", ""), ("queue", "q"), ("task", "t")], ids=lambda given: given
)
def test_a_job_that_ends_before_its_first_renewal_under_a_limit_makes_room(
    fleet: Fleet, scope: str, name: str
) -> None:
    """The job ran before the limit came, so its process holds no permit that it could free."""
    fleet.publish(4)
    process, other = fleet.process(), fleet.process()
    assert process.start(4) == 4
    fleet.store.set_limits(scope, name, Limits(concurrency=3))
    assert other.start() == 0
    for ends, runs in ((1, 0), (2, 2), (1, 3)):
        process.claim(0, process.running[:ends])
        for _ in range(2):  # a process that is refused finds what has ended, and asks again
            fleet.clock.advance(1.1)
            other.start()
        assert len(other.running) == runs
    fleet.clock.advance(1.1)
    assert fleet.process().start() == 0


def test_a_permit_of_a_shard_that_is_no_more_makes_room(fleet: Fleet) -> None:
    """The number of shards has changed since its job was counted."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    permits = {"total:": [adopted("gone", SHARDS_MOST - 1)]}
    fleet.store.shards[HOME].permits(seconds=30.0, renewed=permits)
    fleet.publish(1)
    process = fleet.process()
    assert process.start() == 0
    fleet.clock.advance(1.1)
    assert process.start() == 1


def test_a_lowered_limit_drains_and_a_raised_one_lets_more_start(fleet: Fleet) -> None:
    """Both count from the next start."""
    fleet.store.set_limits("total", "", Limits(concurrency=4))
    fleet.publish(5)
    process = fleet.process()
    assert process.start() == 4
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    for left in (3, 2, 2):
        fleet.clock.advance(1.0)
        process.end()
        assert len(process.running) == left
    fleet.store.set_limits("total", "", Limits(concurrency=6))
    fleet.clock.advance(1.0)
    assert process.start() == 4
    fleet.store.set_limits("total", "", None)
    fleet.clock.advance(1.0)
    assert process.start() == 6


def test_jobs_one_after_the_other_ask_seldom(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no other waits a permit serves job after job; an idle process holds none."""
    asked, permits = count(), PermitStore.permits

    def counted(self: PermitStore, *given: Any, **named: Any) -> Any:
        next(asked)
        return permits(self, *given, **named)

    monkeypatch.setattr(PermitStore, "permits", counted)
    fleet.store.set_limits("total", "", Limits(concurrency=5))
    fleet.publish(10)
    process = fleet.process()
    for _ in range(30):
        assert len(process.claim(1, process.running).leases) == 1
    assert next(asked) == 1
    assert not process.claim(1, process.running).leases
    assert next(asked) == 3
    assert fleet.permits("total:") == 0
    assert not process.claim(1).leases
    assert next(asked) == 4  # this count alone


@pytest.mark.parametrize(("rate", "burst"), [(0.5, 1), (4.0, 8)])
def test_a_rate_holds_over_all_shards(fleet: Fleet, rate: float, burst: int) -> None:
    """No more start than it lets, nearly as many, and each shard has its share."""
    fleet.store.set_limits("task", "t", Limits(rate=rate, burst=burst))
    fleet.publish(30)
    processes, started = [fleet.process(), fleet.process()], Counter[int]()
    seconds, step = 40 / rate, 0.25 / rate
    for tick in range(int(seconds / step)):
        for process in processes:
            for lease in process.claim(4, process.running).leases:
                started[shard_of(lease.job.workspace, SHARDS)] += 1
        assert sum(started.values()) <= burst + rate * tick * step + 1e-6
        fleet.clock.advance(step)
    assert sum(started.values()) >= 0.8 * (burst + rate * seconds)
    assert min(started[number] for number in range(SHARDS)) >= 0.5 * max(started.values()), started


def test_a_rate_that_is_raised_applies_at_once_on_all_shards(fleet: Fleet) -> None:
    """They ask their home again before the lower one would have let them start."""
    fleet.store.set_limits("task", "t", Limits(rate=0.001))
    fleet.publish(30)
    process, started = fleet.process(), 0
    for _ in range(8):
        started += len(process.claim(4).leases)
        fleet.clock.advance(0.5)
    assert started == 1
    fleet.store.set_limits("task", "t", Limits(rate=4.0))
    for _ in range(24):
        started += len(process.claim(4).leases)
        fleet.clock.advance(0.25)
    assert 6 <= started <= 26


def test_people_see_the_whole_limit(fleet: Fleet) -> None:
    """``why`` names it where it is full, with what all shards use; lists tell it."""
    fleet.store.set_limits("total", "", Limits(concurrency=2))
    fleet.store.set_limits("task", "t", Limits(concurrency=9))
    fleet.publish(3)
    admin = Operators(lambda: fleet.store, Settings())
    process = fleet.process()
    assert admin.views.runnable("q").startable == 2
    process.start()
    assert admin.views.runnable("q").startable == 0
    running = {lease.job.workspace for lease in process.running}
    waiting = next(name for name in fleet.published if name not in running)
    found = admin.views.why(workspace=waiting)
    assert [(each.kind, each.scope, each.limit, each.used) for each in found.blockers] == [
        ("concurrency", "total", 2.0, 2)
    ]
    process.claim(0, process.running[:1])
    assert not [
        each for each in admin.views.why(workspace=waiting).blockers if each.kind != "worker"
    ]


def test_a_job_needs_the_permits_of_all_its_limits(fleet: Fleet) -> None:
    """The lowest of them counts; those of the others come back."""
    fleet.store.set_limits("total", "", Limits(concurrency=5))
    fleet.store.set_limits("queue", "q", Limits(concurrency=4))
    fleet.store.set_limits("task", "t", Limits(concurrency=3, rate=100.0, burst=50))
    fleet.publish(4)
    process, other = fleet.process(), fleet.process()
    assert process.start() == 3
    fleet.publish(2, task="free")
    fleet.clock.advance(2.0)
    assert other.start() == 1
    fleet.publish(2, queue="r", task="free")
    assert fleet.process("r").start() == 1
    limits = ("total:", "queue:q", "task:t")
    assert [fleet.permits(limit) for limit in limits] == [5, 4, 3]


def test_a_process_with_many_slots_claims_what_it_may_start(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has been refused, it leases no job in vain while it goes on."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=2))
    fleet.publish(20)
    process, released = fleet.process(), count()
    assert process.start(8) == 2
    released_by = replies.released

    def counted(*given: Any, **named: Any) -> Finish:
        next(released)
        return released_by(*given, **named)

    monkeypatch.setattr(replies, "released", counted)
    for _ in range(20):
        process.claim(7, process.running[:1])
        fleet.clock.advance(0.1)
        assert len(process.running) == 2
    assert next(released) == 0


@pytest.mark.usefixtures("servers_apart")
def test_a_limit_is_set_where_a_shard_answers(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call raises, and may be repeated; where the home of the limit is away, none is set."""
    away = {2}
    call = Engine.call

    def refuse_some(engine: Engine, operation: str, /, **given: Any) -> Any:
        if engine.shard in away:
            raise StoreUnavailable("away")
        return call(engine, operation, **given)

    monkeypatch.setattr(Engine, "call", refuse_some)
    for gone, concurrency in ((2, 2), (HOME, 9)):
        away.add(gone)
        with pytest.raises(StoreUnavailable):
            fleet.store.set_limits("total", "", Limits(concurrency=concurrency))
        away.clear()
    found = [shard.get_limits("total", "") for shard in fleet.store.shards]
    assert [bool(each) for each in found] == [shard != 2 for shard in range(SHARDS)]
    assert all(each[0].limits == {"concurrency": 2} for each in found if each)


def _ask(
    fleet: Fleet, turn: str, *taken: str, freed: Sequence[str] = (), of: str = "total:"
) -> int:
    """Ask the home of a limit; return how many permits it gives."""
    home = fleet.store.shards[home_of(of)]
    (told,) = home.permits([Change(of, turn, freed, taken)], seconds=LEASE_SECONDS)
    return told.taken


def test_a_home_that_is_asked_again(fleet: Fleet) -> None:
    """A repeated ask has the permit that the first has taken, and needs no room."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    assert [_ask(fleet, "q", "p") for _ in range(2)] == [1, 1]
    assert _ask(fleet, "q", "other") == 0


def test_a_permit_without_a_start_counts_for_no_rate(fleet: Fleet) -> None:
    """Another job may start in its place at once."""
    fleet.store.set_limits("task", "t", Limits(rate=0.01))
    assert _ask(fleet, "0", "p", of="task:t") == 1
    assert _ask(fleet, "0", "other", of="task:t") == 0
    assert _ask(fleet, "0", "other", freed=["!p"], of="task:t") == 1


def test_the_turn_of_one_that_asks_no_more_passes(fleet: Fleet) -> None:
    """It holds up no other for long."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    assert _ask(fleet, "a", "p") == 1
    assert _ask(fleet, "gone", "other") == 0
    fleet.clock.advance(10)
    assert _ask(fleet, "b", "third", freed=["p"]) == 1


def test_one_that_is_refused_sleeps(fleet: Fleet) -> None:
    """No wake-up is left from a turn that it has had."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    assert _ask(fleet, "a", "p") == 1
    assert _ask(fleet, "b", "other") == 0
    assert _ask(fleet, "a", "third", freed=["p"]) == 0
    assert _ask(fleet, "b", "other") == 1
    assert _ask(fleet, "b", "fourth") == 0
    engine = fleet.store.shards[HOME].engine
    assert not engine.command("EXISTS", engine.keys.key("permit_token", "b"))
