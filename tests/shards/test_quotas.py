"""Limits wider than a shard: each shard has a quota, and their sum never exceeds the limit."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from fairqueue import CapacityExceeded, Lease, Limits, Settings
from fairqueue._admin import Admin
from fairqueue._quota_mover import QuotaMover
from fairqueue._shards import shard_of
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.quotas import Change, Granted, Missed, Need, Place
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.sharded.quotas import TELL_MISSED_SECONDS, Quotas
from fairqueue._stores.store import Store
from fairqueue._tally import Tally
from fairqueue._types import Admission, Job, StoredLimits
from fairqueue.audit import audit
from fairqueue.errors import StoreUnavailable
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World

SHARDS = 3
QUEUE = "concurrency:queue:q"
ALL = (QUEUE, "concurrency:total:", "concurrency:task:t")


def homes(number: int) -> Iterator[str]:
    """Give workspaces that live on a shard."""
    return (name for name in map("w{}".format, count()) if shard_of(name, SHARDS) == number)


class Fleet:
    """A store of three shards, with a producer and a worker on each."""

    def __init__(self, stores: list[Store], clock: ManualClock) -> None:
        self.clock = clock
        self.store = ShardedStore(stores)
        self.quotas = Quotas(lambda: stores, clock=clock)
        self.worlds = [
            World(store, clock, _ids=count(10_000 * i)) for i, store in enumerate(stores)
        ]
        self.workers: list[Worker] = [world.worker() for world in self.worlds]
        self.homes = [homes(number) for number in range(SHARDS)]
        self.running: list[list[Lease]] = [[] for _ in stores]

    def publish(self, number: int, n: int = 1, workspace: str = "", **job: Any) -> None:
        """Publish jobs of one workspace, or each of another one."""
        for _ in range(n):
            self.worlds[number].publish(workspace or next(self.homes[number]), **job)

    def claim(self, number: int, n: int = 100) -> int:
        """Start what may start on one shard; return how many jobs that was."""
        leases = self.workers[number].take(n)
        self.running[number] += leases
        return len(leases)

    def end(self, number: int) -> None:
        """End the oldest job that runs there."""
        assert self.workers[number].finish(self.running[number].pop(0))

    def runs(self) -> list[int]:
        """How many jobs run on each shard."""
        return list(map(len, self.running))

    def line(self, limit: str = QUEUE) -> list[Granted]:
        """What the ledger says."""
        return self.store.shards[0].quota_ledger([limit], shards=SHARDS)[0]

    def quota(self, number: int, limit: str = QUEUE) -> int:
        """What a shard may have of a limit."""
        needs = self.store.shards[number].quota_needs()
        return next((need.quota for need in needs if need.limit == limit), 0)

    def quotas_of(self, limit: str = QUEUE) -> list[int]:
        """What each shard may have."""
        return [self.quota(number, limit) for number in range(SHARDS)]


@pytest.fixture(params=["memory", "redis"])
def fleet(request: pytest.FixtureRequest, clock: ManualClock, namespace: str) -> Iterator[Fleet]:
    """Three shards on each engine in turn; at the end the auditor finds nothing there."""
    engines: list[Any]
    if request.param == "redis":
        client = request.getfixturevalue("redis_client")
        engines = [RedisEngine(client, namespace=namespace, shard=i) for i in range(SHARDS)]
    else:
        database = Database()
        engines = [MemoryEngine(database, namespace=namespace, shard=i) for i in range(SHARDS)]
    stores = [Store(engine, clock=clock) for engine in engines]
    yield Fleet(stores, clock)
    for store in stores:
        store.engine.silent = False
        assert audit(store.engine, now=clock()) == []
        store.close()


WIDE = {
    "total": StoredLimits(total=Limits(concurrency=7)),
    "queue": StoredLimits(queues={"q": Limits(concurrency=7)}),
    "default": StoredLimits(queue_default=Limits(concurrency=7)),
    "task": StoredLimits(tasks={"t": Limits(concurrency=7)}),
}


@pytest.mark.parametrize("stored", WIDE.values(), ids=WIDE)
def test_a_limit_holds_over_all_shards(fleet: Fleet, stored: StoredLimits) -> None:
    """No more jobs run than it lets, and as many, wherever their workspaces live."""
    fleet.store.configure(stored, authoritative=True)
    for number in range(SHARDS):
        fleet.publish(number, 5, task="t")
    fleet.quotas.move()
    for number in range(SHARDS):
        fleet.claim(number)
    assert sum(fleet.runs()) == 7
    assert min(fleet.runs()) == 2


def test_slots_go_where_jobs_are(fleet: Fleet) -> None:
    """A shard with all the jobs gets all slots, and gives them back when others come."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=6))
    fleet.publish(0, 20)
    fleet.quotas.move()
    assert fleet.claim(0) == 6
    fleet.publish(1, 20)
    for _ in range(6):
        fleet.quotas.move()
        fleet.end(0)
        fleet.quotas.move()
        for number in (0, 1):
            fleet.claim(number)
        assert sum(fleet.runs()) <= 6
    assert fleet.runs() == [3, 3, 0]


def test_what_is_left_waits_on_every_shard(fleet: Fleet) -> None:
    """A newcomer on an idle shard starts at once."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=9))
    fleet.publish(0, 3)
    fleet.quotas.move()
    assert fleet.claim(0) == 3
    fleet.publish(2)
    assert fleet.claim(2) == 1


def test_weights_divide_the_slots(fleet: Fleet) -> None:
    """A workspace of weight 3 has three times the slots of one of another shard."""
    names = [next(fleet.homes[number]) for number in (0, 1)]
    fleet.store.set_limits("workspace", names[0], Limits(weight=3))
    fleet.store.set_limits("total", "", Limits(concurrency=8))
    for number, name in enumerate(names):
        fleet.publish(number, 20, name)
    fleet.quotas.move()
    assert [fleet.claim(number) for number in (0, 1)] == [6, 2]


def test_one_slot_goes_round(fleet: Fleet) -> None:
    """Each shard gets its turn, also where one would go on for ever."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    for number in range(SHARDS):
        fleet.publish(number, 40)
    started = [0] * SHARDS
    for _ in range(90):
        for number in range(SHARDS):
            started[number] += fleet.claim(number)
        assert sum(fleet.runs()) <= 1
        fleet.quotas.move()
        fleet.clock.advance(0.5)
        for number in range(SHARDS):
            if fleet.running[number]:
                fleet.end(number)
    assert sum(started) > 50
    assert min(started) >= 0.8 * max(started)


def starts_beside_others(fleet: Fleet, looks: int) -> int:
    """Let jobs of a second run on two shards; return how many start."""
    started = 0
    for look in range(looks):
        fleet.quotas.move()
        fleet.clock.advance(0.5)
        for number in (1, 2):
            started += fleet.claim(number)
            while look % 2 and fleet.running[number]:
                fleet.end(number)
    return started


@pytest.mark.parametrize("most", [1, 6])
def test_jobs_that_no_worker_claims_hold_no_slot(fleet: Fleet, most: int) -> None:
    """Others use them; now and then one is tried, and all come as soon as it is used."""
    fleet.store.set_limits("total", "", Limits(concurrency=most))
    fleet.publish(0, 20, queue="unserved")
    for number in (1, 2):
        fleet.publish(number, 30 * most)
    assert starts_beside_others(fleet, 80) >= 30 * most
    started = 0
    for look in range(80):
        fleet.quotas.move()
        fleet.clock.advance(0.5)
        leases = fleet.workers[0].take(9, "unserved")
        started += len(leases)
        for lease in leases:
            fleet.workers[0].finish(lease)
        for number in (1, 2):
            fleet.claim(number)
            while look % 2 and fleet.running[number]:
                fleet.end(number)
    assert started == 20


def test_a_lowered_limit_drains(fleet: Fleet) -> None:
    """No job is stopped, and none starts until fewer run than it lets."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=9))
    for number in range(SHARDS):
        fleet.publish(number, 10)
    fleet.quotas.move()
    assert [fleet.claim(number) for number in range(SHARDS)] == [3, 3, 3]
    fleet.store.set_limits("queue", "q", Limits(concurrency=3))
    for number in range(SHARDS):
        for _ in range(2):
            assert fleet.claim(number) == 0
            fleet.end(number)
            fleet.quotas.move()
    assert [fleet.claim(number) for number in range(SHARDS)] == [0, 0, 0]
    fleet.end(0)
    fleet.quotas.move()
    assert sum(fleet.claim(number) for number in range(SHARDS)) == 1


def test_a_limit_that_comes_later_counts_what_runs(fleet: Fleet) -> None:
    """Jobs that run already are within it as soon as they are few enough."""
    for number in range(SHARDS):
        fleet.publish(number, 10)
        fleet.claim(number, 4)
    fleet.store.set_limits("queue", "q", Limits(concurrency=10))
    assert [fleet.claim(number) for number in range(SHARDS)] == [0, 0, 0]
    for number in range(SHARDS):
        fleet.end(number)
    fleet.quotas.move()
    assert sum(fleet.claim(number) for number in range(SHARDS)) == 1
    fleet.store.set_limits("queue", "q", None)
    assert fleet.claim(0) > 0


def test_none_starts_while_more_run_than_a_lowered_limit_lets(fleet: Fleet) -> None:
    """Also on a shard whose own jobs have ended, while others run on elsewhere."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=9))
    for number in range(SHARDS):
        fleet.publish(number, 10)
    fleet.quotas.move()
    assert [fleet.claim(number) for number in range(SHARDS)] == [3, 3, 3]
    fleet.store.set_limits("queue", "q", Limits(concurrency=3))
    for _ in range(3):
        fleet.end(0)
        fleet.quotas.move()
        assert fleet.claim(0) == 0
    for number in (1, 1, 1, 2):
        fleet.end(number)
        fleet.quotas.move()
    fleet.quotas.move()
    assert fleet.claim(0) + fleet.claim(1) + fleet.claim(2) == 1


def test_a_job_is_not_kept_waiting_by_jobs_that_no_worker_takes(clock: ManualClock) -> None:
    """The only slot goes on from a shard that has it and does not use it, and reaches each."""
    engines = [MemoryEngine(Database(), shard=number) for number in range(8)]
    stores = [Store(engine, clock=clock) for engine in engines]
    ShardedStore(stores).configure(StoredLimits(total=Limits(concurrency=1)), authoritative=True)
    worlds = [World(store, clock, _ids=count(100 * n)) for n, store in enumerate(stores)]
    quotas, workers = Quotas(lambda: stores, clock=clock), [world.worker() for world in worlds]
    for number in range(7):
        for n in range(6):
            worlds[number].publish(f"w{number}-{n}", queue="without a worker")
    worlds[7].publish("lone")
    waited = 0.0
    while not any(worker.take(1) for worker in workers):
        assert waited < 60
        clock.advance(0.5)
        waited += 0.5
        quotas.move()


def off(fleet: Fleet) -> None:
    """Take the limit of the queue away."""
    fleet.store.set_limits("queue", "q", None)


def observe(fleet: Fleet) -> None:
    """Let the limit of the queue only be observed."""
    stored = StoredLimits(queues={"q": Limits(concurrency=6)}, enforced=False)
    fleet.store.configure(stored, authoritative=True)
    fleet.store.set_limits("queue", "q", None)


def on(fleet: Fleet) -> None:
    """Set it again."""
    fleet.store.configure(StoredLimits(), authoritative=True)
    fleet.store.set_limits("queue", "q", Limits(concurrency=6))


@pytest.mark.parametrize("let", [off, observe])
def test_a_limit_that_is_set_again_counts_what_runs(
    fleet: Fleet, let: Callable[[Fleet], None]
) -> None:
    """Jobs that started without it: none starts before they are few enough."""
    on(fleet)
    for number in range(SHARDS):
        fleet.publish(number, 20)
    fleet.quotas.move()
    let(fleet)
    assert [fleet.claim(number, 10) for number in range(SHARDS)] == [10, 10, 10]
    on(fleet)
    for number in (0, 1):
        while fleet.running[number]:
            fleet.end(number)
            fleet.quotas.move()
            assert fleet.claim(0) == 0
    for _ in range(5):
        fleet.end(2)
    fleet.quotas.move()
    fleet.quotas.move()
    assert fleet.claim(0) == 1


def test_a_shard_that_is_away_keeps_its_quota(
    fleet: Fleet,
    servers_apart: None,
) -> None:
    """Its leases may run on; the others divide what is left, and it takes part when it is back."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=6))
    assert fleet.quotas_of() == [2, 2, 2]
    fleet.store.shards[1].engine.silent = True
    fleet.publish(0, 20)
    with pytest.raises(StoreUnavailable):
        fleet.quotas.move()
    assert fleet.claim(0) == 4
    fleet.store.shards[1].engine.silent = False
    fleet.publish(1, 20)
    fleet.quotas.move()
    assert fleet.claim(1) == 2
    for _ in range(2):
        fleet.end(0)
        fleet.quotas.move()
    assert [fleet.claim(number) for number in (0, 1)] == [1, 1]
    assert fleet.runs() == [3, 3, 0]


def test_one_process_moves_them_and_another_takes_over(fleet: Fleet) -> None:
    """The task is kept for as long as its owner gives signs of life."""
    assert fleet.quotas.tend("a", seconds=3) == (False, 3.0)
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    assert fleet.quotas.tend("a", seconds=3) == (True, 3.0)
    fleet.clock.advance(1)
    assert fleet.quotas.tend("b", seconds=3) == (False, 2.0)
    fleet.clock.advance(2.5)
    assert fleet.quotas.tend("b", seconds=3) == (True, 3.0)
    assert fleet.quotas.tend("a", seconds=3)[0] is False


def publish_to(fleet: Fleet, number: int, job_id: str, name: str = "") -> None:
    """Publish through the whole store."""
    workspace = name or next(fleet.homes[number])
    fleet.store.publish(Job(job_id, workspace, "q", "t", b""), Admission())


@pytest.mark.parametrize("scope", ["queue", "total"])
def test_a_capacity_is_met_only_by_the_whole(fleet: Fleet, scope: str) -> None:
    """Room moves to the shard that needs it, and a rejection tells of the whole."""
    fleet.store.set_limits(scope, "q" if scope == "queue" else "", Limits(capacity=7))
    for n in range(6):
        publish_to(fleet, 0, f"a{n}")
    publish_to(fleet, 1, "b")
    with pytest.raises(CapacityExceeded) as error:
        publish_to(fleet, 2, "c")
    assert (error.value.scope, error.value.limit, error.value.waiting) == (scope, 7, 7)
    assert fleet.store.depth("q") == 7


def test_a_shard_keeps_its_free_places_for_a_calm_workspace(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room moves to a shard for a place that is kept there, but room beyond it does."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    fleet.store.set_limits("queue", "q", Limits(capacity=4))
    flood, calm, other = (next(fleet.homes[shard]) for shard in (0, 0, 1))
    for n in range(3):
        publish_to(fleet, 0, f"a{n}", flood)
    publish_to(fleet, 1, "b", other)
    with pytest.raises(CapacityExceeded):
        publish_to(fleet, 0, "c", calm)
    fleet.claim(0, 1)
    fleet.clock.advance(1)
    with pytest.raises(CapacityExceeded) as error:
        publish_to(fleet, 0, "a3", flood)
    assert (error.value.waiting, error.value.kept) == (3, 1)
    fleet.claim(1, 1)
    fleet.clock.advance(1)
    publish_to(fleet, 0, "a4", flood)
    publish_to(fleet, 0, "c", calm)
    assert fleet.store.depth("q") == 4


def test_many_jobs_meet_only_the_whole_capacity(fleet: Fleet) -> None:
    """As many as it has room for are stored, in one call of the client."""
    fleet.store.set_limits("queue", "q", Limits(capacity=7))
    name = next(fleet.homes[0])
    jobs = [(Job(f"j{n}", name, "q", "t", b""), Admission()) for n in range(7)]
    assert all(outcome.is_new for outcome in fleet.store.publish_many(jobs))  # type: ignore[union-attr]
    late = [(Job(f"k{n}", name, "q", "t", b""), Admission()) for n in range(2)]
    assert all(isinstance(one, CapacityExceeded) for one in fleet.store.publish_many(late))


def test_a_group_meets_only_the_whole_capacity(fleet: Fleet) -> None:
    """It is accepted whole where all shards together have room for it."""
    fleet.store.set_limits("queue", "q", Limits(capacity=7))
    name = next(fleet.homes[1])
    for size, is_accepted in ((6, True), (2, False), (1, True)):
        how = Admission(group=f"of {size}")
        jobs = [(Job(f"{size}-{n}", name, "q", "t", b""), how) for n in range(size)]
        outcomes = fleet.store.publish_many(jobs)
        assert [not isinstance(one, CapacityExceeded) for one in outcomes] == [is_accepted] * size
    assert fleet.store.depth("q") == 7


def test_a_ledger_that_is_lost_is_made_again(fleet: Fleet) -> None:
    """From what the shards use, so that what runs counts."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=6))
    for number in range(SHARDS):
        fleet.publish(number, 10)
        assert fleet.claim(number) == 2
    engine = fleet.store.shards[0].engine
    engine.command("DEL", engine.keys.key("quota_ledger"))
    fleet.clock.advance(1)
    fleet.quotas.move()
    assert [each.quota for each in fleet.line()] == [2, 2, 2]
    assert [fleet.claim(number) for number in range(SHARDS)] == [0, 0, 0]
    fleet.end(0)
    fleet.quotas.move()
    assert sum(fleet.claim(number) for number in range(SHARDS)) == 1


@pytest.mark.parametrize("scope", ["queue", "total", "task"])
def test_limits_are_listed_while_they_are_wider_than_a_shard(fleet: Fleet, scope: str) -> None:
    """Those that were set live and those that were configured, until they are gone."""
    name = "" if scope == "total" else "x"
    some: dict[str, Any] = {"total": Limits(concurrency=3)} if scope == "total" else {}
    some = some or {f"{scope}s": {name: Limits(concurrency=3)}}

    def are_listed() -> list[bool]:
        return [shard.missed_limits()[0] for shard in fleet.store.shards]

    for let in (
        lambda: fleet.store.set_limits(scope, name, Limits(concurrency=3)),
        lambda: fleet.store.configure(StoredLimits(**some), authoritative=True),
    ):
        let()
        assert are_listed() == [True] * SHARDS
        fleet.store.set_limits(scope, name, None)
        fleet.store.configure(StoredLimits(), authoritative=True)
        assert are_listed() == [False] * SHARDS


def test_with_observe_no_quota_holds_a_job_back(fleet: Fleet) -> None:
    """It is counted, as on one shard."""
    stored = StoredLimits(queues={"q": Limits(concurrency=1)}, enforced=False)
    fleet.store.configure(stored, authoritative=True)
    for number in range(SHARDS):
        fleet.publish(number, 3)
    fleet.quotas.move()
    assert [fleet.claim(number) for number in range(SHARDS)] == [3, 3, 3]
    names = [row.workspace for row in fleet.store.snapshot().workspaces]
    whys = [fleet.store.why(workspace=name, job_id=None, queue=None) for name in names]
    assert sum((why.observed or {}).get("concurrency.queue", 0) for why in whys) >= 8


def test_people_see_the_whole_limit(fleet: Fleet) -> None:
    """Lists, limits and ``why`` tell the limit that was set, and what runs on all shards."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=3, capacity=50))
    fleet.store.set_limits("task", "t", Limits(concurrency=8))
    names = [next(fleet.homes[number]) for number in range(SHARDS)]
    for number, name in enumerate(names):
        fleet.publish(number, 5, name, task="t")
    fleet.quotas.move()
    for number in range(SHARDS):
        fleet.claim(number)
    [page] = fleet.store.queues()
    assert [(row.concurrency, row.capacity, row.running) for row in page] == [(3, 50, 3)]
    assert [row.concurrency for page in fleet.store.tasks() for row in page] == [8]
    assert fleet.store.get_limits("queue", "q")[0].limits == Limits(concurrency=3, capacity=50)
    stored = {row.scope: row.limits for page in fleet.store.stored_limits() for row in page}
    assert stored == {"queue": {"concurrency": 3, "capacity": 50}, "task": {"concurrency": 8}}
    why = fleet.store.why(workspace=names[0], job_id=None, queue=None)
    assert [(b.scope, b.limit, b.used) for b in why.blockers] == [("queue", 3.0, 3)]


def test_quotas_go_with_their_limit(fleet: Fleet) -> None:
    """A day after the limit is gone, so that what comes late is refused until then."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=6))
    fleet.store.set_limits("task", "t", Limits(concurrency=6))
    fleet.store.set_limits("queue", "q", None)
    kept = [3600.0, 90_000.0]
    for seconds, left in zip(kept, [2, 1], strict=True):
        fleet.clock.advance(seconds)
        for _ in range(8):
            fleet.clock.advance(601)
            fleet.store.reap(max_deliveries=1)
        for shard in fleet.store.shards:
            keys = shard.engine.keys
            assert shard.engine.command("HLEN", keys.key("quotas")) == left
    assert shard.engine.command("HLEN", fleet.store.shards[0].engine.keys.key("quota_ledger")) == 1


def test_quotas_of_queues_under_a_default_go_with_them(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are taken back when no shard knows the queue, and go a day later."""
    monkeypatch.setattr("fairqueue._stores.sharded.old_quotas.LOOK_EVERY_SECONDS", 0)
    limits = Limits(concurrency=3)
    fleet.store.configure(StoredLimits(queue_default=limits), authoritative=True)
    keys = [shard.engine.keys for shard in fleet.store.shards]

    def left() -> list[int]:
        """How many quotas each shard has, and how many lines the ledger."""
        lens = [
            shard.engine.command("HLEN", keys[n].key("quotas"))
            for n, shard in enumerate(fleet.store.shards)
        ]
        ledger = fleet.store.shards[0].engine.command("HLEN", keys[0].key("quota_ledger"))
        return [*lens, ledger]

    for number, queue in ((1, "gone"), (2, "q")):
        fleet.publish(number, queue=queue)
        fleet.quotas.move()
        [lease] = fleet.workers[number].take(1, queue)
        fleet.workers[number].finish(lease)
    assert left() == [2, 2, 2, 3]
    found = []
    for _ in range(80):
        fleet.clock.advance(3601)
        fleet.store.reap(max_deliveries=1)
        fleet.store.reap(max_deliveries=1)
        fleet.claim(2)  # it takes the queue "q" as used
        fleet.quotas.move()
        found.append(left())
    assert found[20] == [2, 2, 2, 3]
    assert found[-1] == [1, 1, 1, 2]
    fleet.publish(0, 9)
    fleet.quotas.move()
    assert fleet.claim(0) == 3


def test_many_jobs_take_what_room_there_is(fleet: Fleet) -> None:
    """Of more than a capacity has room for, as many are stored as it has."""
    fleet.store.set_limits("queue", "q", Limits(capacity=7))
    name = next(fleet.homes[0])
    jobs = [(Job(f"j{n}", name, "q", "t", b""), Admission()) for n in range(9)]
    outcomes = fleet.store.publish_many(jobs)
    assert sum(not isinstance(one, CapacityExceeded) for one in outcomes) == 7


def test_shards_that_do_not_know_a_queue_lend_their_parts(fleet: Fleet) -> None:
    """A default is for all shards together, also where a queue has jobs on one only."""
    fleet.store.configure(StoredLimits(queue_default=Limits(concurrency=9)), authoritative=True)
    fleet.publish(0, 20)
    fleet.quotas.move()
    assert fleet.claim(0) == 9


@pytest.mark.slow
def test_a_look_at_many_queues_is_short(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on with the next ones each time, and passes those that are idle."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.PAGES", 2)
    fleet.store.configure(StoredLimits(queue_default=Limits(concurrency=6)), authoritative=True)
    names = [f"q{n}" for n in range(700)]
    workspace = next(fleet.homes[0])
    jobs = [(Job(f"j{n}", workspace, name, "t", b""), Admission()) for n, name in enumerate(names)]
    fleet.store.publish_many(jobs)
    asked: list[str] = []
    call = Store._call

    def counted(store: Store, operation: str, /, **arguments: Any) -> Any:
        asked.append(operation)
        return call(store, operation, **arguments)

    monkeypatch.setattr(Store, "_call", counted)

    def looks(most: int) -> int:
        """Look until each queue was looked at, and each look is short."""
        for n in range(1, 50):
            asked.clear()
            fleet.quotas.move()
            assert len(asked) <= most
            if fleet.quotas._places[fleet.store.shards[0]] == Place():
                return n
        raise AssertionError

    assert 3 <= looks(150) <= 12
    for lease in fleet.workers[0].take(900, *names):
        fleet.workers[0].finish(lease)
    assert looks(20) <= 12


def test_a_limit_that_a_shard_did_not_get_closes_no_other(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as an even share, also where the others do not have the limit any more."""
    first = fleet.store.shards[0]
    caplog.set_level(logging.WARNING)
    for number in range(SHARDS):
        fleet.publish(number, 10)
    for shard in fleet.store.shards[1:]:
        shard.set_limits("queue", "q", Limits(concurrency=6))
    mover = QuotaMover(fleet.store, Tally(0))
    for _ in fleet.store.shards:
        mover.beat(fleet.store)
    assert [fleet.claim(1), fleet.claim(2)] == [2, 2]
    for shard in fleet.store.shards[1:]:
        shard.set_limits("queue", "q", None)
    first.set_limits("queue", "q", Limits(concurrency=6))
    for number in (1, 2):
        fleet.claim(number)
    mover.beat(fleet.store)
    assert fleet.claim(0) == 2
    [told] = caplog.messages
    assert told == "shards differ in limits, set them again, see `doctor`: queue q"


@pytest.mark.parametrize("away", [1, 2])
def test_a_shard_that_missed_a_limit_has_it_when_it_is_back(
    fleet: Fleet,
    servers_apart: None,
    away: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The mover tells it of what was set, replaced or removed; the call has failed."""
    shard = fleet.store.shards[away]
    mover = QuotaMover(fleet.store, Tally(0))
    for scope, limits in (
        ("total", Limits(concurrency=6, capacity=9)),
        ("task", Limits(concurrency=6, workspace_concurrency=3)),
        ("task", Limits(concurrency=7)),
        ("default", Limits(concurrency=6)),
        ("total", None),
        ("task", None),
    ):
        shard.engine.silent = True
        with pytest.raises(StoreUnavailable):
            fleet.store.set_limits(scope, "t" if scope == "task" else "", limits)
        shard.engine.silent = False
        monkeypatch.setattr(fleet.store.quotas, "_missed_at", -TELL_MISSED_SECONDS)
        mover.beat(fleet.store)
        found = [
            each.get_limits(scope, "t" if scope == "task" else "") for each in fleet.store.shards
        ]
        assert len({tuple(one.limits for one in of_shard) for of_shard in found}) == 1
    assert len(caplog.records) == 6
    assert [each.missed_limits()[1] for each in fleet.store.shards] == [[]] * SHARDS


def test_an_operator_limits_a_name_that_no_job_has_while_a_shard_is_away(
    fleet: Fleet, servers_apart: None
) -> None:
    """Whether a job names it cannot be known then; the limit is set on the others."""
    fleet.store.shards[2].engine.silent = True
    with pytest.raises(StoreUnavailable):
        Admin(lambda: fleet.store, Settings()).set_queue_limits("new", concurrency=6)
    first = fleet.store.shards[0]
    assert [each.limits for each in first.get_limits("queue", "new")] == [Limits(concurrency=6)]
    assert first.missed_limits()[1] == [Missed("queue", "new", 2)]


def test_a_limit_over_all_shards_is_not_set_without_the_first(
    fleet: Fleet, servers_apart: None
) -> None:
    """Else the others would have no quota of it, and start nothing."""
    first = fleet.store.shards[0].engine
    for number in range(SHARDS):
        fleet.publish(number, 10)
    first.silent = True
    with pytest.raises(StoreUnavailable):
        fleet.store.set_limits("queue", "q", Limits(concurrency=6))
    assert fleet.claim(1) == 10
    with pytest.raises(StoreUnavailable):
        fleet.store.set_limits("default", "", Limits(concurrency=6))
    assert fleet.claim(2) == 10


def test_a_shard_that_refuses_a_quota_keeps_no_other_back(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its error is, the others move, and the call that sets a limit succeeds."""
    fleet.store.set_limits("queue", "q", Limits(concurrency=6))
    refusing = fleet.store.shards[2]

    def refuse(_: object) -> list[int | None]:
        raise RuntimeError("no")

    monkeypatch.setattr(refusing, "set_quotas", refuse)
    fleet.publish(0, 20)
    fleet.store.set_limits("queue", "q", Limits(concurrency=9))
    assert fleet.claim(0) == 7
    fleet.publish(2, 20)
    with pytest.raises(RuntimeError):
        fleet.quotas.move()
    assert fleet.claim(2) == 2


def test_a_silent_server_is_not_asked_for_room_again_and_again(
    fleet: Fleet, servers_apart: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publish that meets a capacity leaves it alone for a while."""
    fleet.store.set_limits("queue", "q", Limits(capacity=6))
    away, asked = fleet.store.shards[2], []
    away.engine.silent = True
    needs = away.quota_needs

    def counted(*of: Any, **how: Any) -> list[Need]:
        asked.append(1)
        return needs(*of, **how)

    monkeypatch.setattr(away, "quota_needs", counted)
    for n in range(12):
        with suppress(CapacityExceeded):
            publish_to(fleet, 0, f"j{n}")
    assert fleet.store.shards[0].depth("q") == 4
    assert len(asked) <= 2


def test_a_clock_that_went_back_leaves_the_task_free(fleet: Fleet) -> None:
    """A tenure that would last for an hour is not believed."""
    fleet.store.set_limits("total", "", Limits(concurrency=1))
    assert fleet.quotas.tend("a", seconds=3600) == (True, 3600.0)
    assert fleet.quotas.tend("b", seconds=3) == (True, 3.0)


# What the protocol holds, whatever is lost, late or repeated.


class Wire:
    """Carries each step of the protocol, late, twice, in any order, or never."""

    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        self.fleet, self.rng = fleet, rng
        self.pending: list[tuple[str, Change]] = []

    def step(self) -> None:
        """Play one step: a new move, or one that is under way."""
        shards, rng = self.fleet.store.shards, self.rng
        limit, number = rng.choice(ALL), rng.randrange(SHARDS)
        change = Change(limit, number, rng.randrange(8), whole=9)
        what = rng.choice(["open", "grant", "carry", "carry", "carry", "carry"])
        if what == "open":
            for opened in shards[0].open_quotas([change], shards=SHARDS):
                self.pending.append(("lower", opened))
        elif what == "grant":
            for granted in shards[0].grant_quotas([change], shards=SHARDS):
                self.pending.append(("raise", granted))
        elif self.pending:
            self._carry(rng.randrange(len(self.pending)))

    def _carry(self, at: int) -> None:
        kind, change = self.pending[at]
        shards, rng = self.fleet.store.shards, self.rng
        if rng.random() < 0.7:  # else it is repeated later
            del self.pending[at]
        if rng.random() < 0.1:
            return  # it was lost
        if kind == "note":
            shards[0].note_quotas([change], shards=SHARDS)
            return
        done = shards[change.shard].set_quotas([change])
        if kind == "lower":
            self.pending += [("note", each) for each in done]


def set_all(fleet: Fleet, most: int) -> None:
    """Limit the queue, the total and the task."""
    for scope, name in (("queue", "q"), ("total", ""), ("task", "t")):
        fleet.store.set_limits(scope, name, Limits(concurrency=most))


class Sums:
    """Holds what must not grow above the limit."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.before = dict.fromkeys(ALL, 0)

    def begin(self) -> None:
        """From here on: jobs may have started while there was no limit."""
        self.before = {limit: self._granted(limit) for limit in ALL}

    def _granted(self, limit: str) -> int:
        return sum(each.quota or 0 for each in self.fleet.line(limit))

    def check(self, most: int) -> None:
        """No sum is above the limit, unless it was before and has not grown."""
        needs = [shard.quota_needs() for shard in self.fleet.store.shards]
        quotas = [{need.limit: need.quota for need in of_shard} for of_shard in needs]
        for limit in ALL:
            line = self.fleet.line(limit)
            granted = self._granted(limit)
            assert granted <= max(most, self.before[limit])
            self.before[limit] = granted
            for number, (each, runs) in enumerate(zip(line, self.fleet.runs(), strict=True)):
                if each.quota is not None:
                    assert max(runs, quotas[number].get(limit, 0)) <= each.quota


def live(fleet: Fleet, rng: random.Random) -> int:
    """Let a job come, start or end; return how many started."""
    number = rng.randrange(SHARDS)
    what = rng.choice(["publish", "claim", "claim", "end"])
    if what == "publish":
        fleet.publish(number, task="t")
    elif what == "claim":
        return fleet.claim(number, 2)
    elif fleet.running[number]:
        fleet.end(number)
    return 0


def take_away(fleet: Fleet, rng: random.Random) -> None:
    """Take the limits away for a while."""
    for scope, name in (("queue", "q"), ("total", ""), ("task", "t")):
        fleet.store.set_limits(scope, name, None)
    for _ in range(rng.randrange(20)):
        live(fleet, rng)


def set_again(fleet: Fleet, rng: random.Random) -> int:
    """Set other limits, also after they were taken away for a while; return how many may run."""
    if rng.random() < 0.5:
        take_away(fleet, rng)
    most = rng.randrange(1, 10)
    set_all(fleet, most)
    return most


@pytest.fixture
def plain_fleet(clock: ManualClock) -> Fleet:
    """Three shards in this process."""
    database = Database()
    engines = [MemoryEngine(database, namespace="n", shard=i) for i in range(SHARDS)]
    return Fleet([Store(engine, clock=clock) for engine in engines], clock)


@pytest.mark.parametrize("seed", range(4))
def test_the_sum_stays_within_the_limit(plain_fleet: Fleet, seed: int) -> None:
    """Steps of many movers come late, twice, in any order or never; limits change meanwhile."""
    rng, most = random.Random(seed), 7
    set_all(plain_fleet, most)
    wire, sums = Wire(plain_fleet, rng), Sums(plain_fleet)
    for _ in range(300):
        plain_fleet.clock.advance(rng.choice([0.0, 0.0, 0.1]))
        if rng.random() < 0.02:
            most = rng.randrange(1, 10)
            set_all(plain_fleet, most)
        if rng.random() < 0.01:
            wire.pending.clear()  # a note of before would be believed until the next look
            take_away(plain_fleet, rng)
            set_all(plain_fleet, most)
            sums.begin()
        (wire.step if rng.random() < 0.6 else lambda: live(plain_fleet, rng))()
        sums.check(most)


class _Died(BaseException):
    """The process that moved quotas is no more."""


@pytest.mark.parametrize("seed", range(4))
def test_a_mover_that_dies_leaves_the_sum_too_low_at_worst(
    plain_fleet: Fleet, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies before or after any call, and what it sent may arrive later; the next one mends."""
    rng, most = random.Random(seed), 7
    set_all(plain_fleet, most)
    sums, late, dies = Sums(plain_fleet), [], [False]
    call = MemoryEngine.call

    def failing(engine: MemoryEngine, operation: str, /, **arguments: Any) -> Any:
        if dies[0] and "quota" in operation and rng.random() < 0.15:
            if rng.random() < 0.5:
                late.append((engine, operation, arguments))
            else:
                call(engine, operation, **arguments)
            raise _Died
        return call(engine, operation, **arguments)

    monkeypatch.setattr(MemoryEngine, "call", failing)
    for _ in range(100):
        plain_fleet.clock.advance(0.1)
        before = sum(plain_fleet.runs())
        started = live(plain_fleet, rng)
        assert not started or before + started <= most
        if rng.random() < 0.05:
            most = set_again(plain_fleet, rng)
            sums.begin()
        dies[0] = True
        with suppress(_Died):
            Quotas(lambda: plain_fleet.store.shards, clock=plain_fleet.clock).move()
        dies[0] = False
        if late and rng.random() < 0.3:
            engine, operation, arguments = rng.choice(late)
            call(engine, operation, **arguments)
        sums.check(most)
    refill(plain_fleet, 7)


def refill(fleet: Fleet, most: int) -> None:
    """Let as many run as may."""
    set_all(fleet, most)
    while sum(fleet.runs()) > most:
        fleet.end(max(range(SHARDS), key=fleet.runs().__getitem__))
    fleet.publish(1, 20, task="t")
    for _ in range(9):  # what one limit lets start depends on the quotas of the others
        fleet.quotas.move()
        for number in range(SHARDS):
            fleet.claim(number)
    assert sum(fleet.runs()) == most
