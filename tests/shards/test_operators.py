"""What operators ask of a store of three shards: limits, pauses, cancelling, dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from fairqueue import Cancelled, Job, Limits, Pause
from fairqueue._shards import shard_of
from fairqueue._stores import replies
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.operators import OperatorStore
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import AnyStore, Store
from fairqueue._types import StoredLimits
from fairqueue.audit import audit
from fairqueue.errors import ConfigurationError, FairQueueError, StoreUnavailable
from fairqueue.testing import ManualClock
from tests.contract.world import LEASE_SECONDS, World

SHARDS = 3
ODD = "d: {*}/\n"


def on_shard(number: int, nth: int = 0) -> str:
    """Return a workspace that lives on a shard."""
    names = (f"w{i}" for i in range(1000))
    return [name for name in names if shard_of(name, SHARDS) == number][nth]


HOMES = [on_shard(number) for number in range(SHARDS)]
"""A workspace of each shard."""


@dataclass
class Shards:
    """A sharded store, and each of its shards with producers and workers of its own."""

    store: ShardedStore
    worlds: list[World]

    def publish(self, **job: Any) -> list[str]:
        """Publish one job for a workspace of each shard; return their ids."""
        return [w.publish(name, **job) for w, name in zip(self.worlds, HOMES, strict=True)]

    def kill(self) -> None:
        """Start a job of each shard, and let its worker disappear for good."""
        for world in self.worlds:
            world.max_deliveries = 1
            world.worker("lost").take_one()
        for _ in range(12):
            self.worlds[0].clock.advance(5.0)
            self.store.reap(max_deliveries=1)

    def counts(self, *, running: bool = False) -> list[int]:
        """Count the jobs of each shard."""
        return [shard.depth("q", running=running) for shard in self.store.shards]

    def away(self, number: int, *, is_away: bool = True) -> None:
        """Let a shard answer no more, or again."""
        self.store.shards[number].engine.silent = is_away


def engines_of(request: pytest.FixtureRequest, namespace: str) -> list[Engine]:
    """Return an engine for each shard, all on one server."""
    if request.param == "redis":
        client = request.getfixturevalue("redis_client")
        return [RedisEngine(client, namespace=namespace, shard=i) for i in range(SHARDS)]
    database = Database()
    return [MemoryEngine(database, namespace=namespace, shard=i) for i in range(SHARDS)]


@pytest.fixture(params=["memory", "redis"])
def shards(request: pytest.FixtureRequest, clock: ManualClock, namespace: str) -> Iterator[Shards]:
    """Three shards on each engine in turn; at the end the auditor finds nothing there."""
    stores = [Store(engine, clock=clock) for engine in engines_of(request, namespace)]
    worlds = [World(store, clock, _ids=count(100 * i)) for i, store in enumerate(stores)]
    yield Shards(ShardedStore(stores), worlds)
    for store in stores:
        store.engine.silent = False
        assert audit(store.engine, now=clock()) == []
        store.close()


OF_STORE = {"reap", "depth", "declare", "is_plain"}
OF_STORE |= {"admit_request", "end_request", "renew_requests", "count_requests"}


@pytest.mark.parametrize(
    "name", sorted(name for name in {*vars(OperatorStore), *OF_STORE} if not name.startswith("_"))
)
def test_no_method_is_left_to_a_store_of_one_shard(name: str) -> None:
    """A sharded store has no engine: each operation is its own."""
    where = next(base for base in ShardedStore.__mro__ if name in vars(base))
    assert ".sharded." in where.__module__


def test_the_depth_is_the_sum(shards: Shards) -> None:
    """Waiting jobs, and with ``running`` those that run, of all shards."""
    shards.publish()
    shards.publish()
    shards.worlds[1].worker().take_one()
    assert shards.store.depth("q") == 5
    assert shards.store.depth("q", running=True) == 6


def test_a_queue_is_plain_on_every_shard(shards: Shards) -> None:
    """A publish declares its queue on one shard, and the store knows it."""
    assert shards.store.is_plain("q") is None
    shards.worlds[2].publish(HOMES[2])
    assert shards.store.is_plain("q") is False
    shards.store.declare("control", plain=True)
    assert [shard.is_plain("control") for shard in shards.store.shards] == [True] * SHARDS
    assert shards.store.is_plain("control") is True


def test_all_shards_are_reaped(shards: Shards) -> None:
    """Due jobs of every shard become runnable."""
    shards.publish(delay_seconds=10.0)
    shards.worlds[0].clock.advance(11.0)
    assert shards.store.reap(max_deliveries=5) == 3
    assert [len(world.worker().take(9)) for world in shards.worlds] == [1, 1, 1]


@pytest.mark.usefixtures("servers_apart")
def test_a_shard_that_is_away_does_not_keep_the_others_from_being_reaped(shards: Shards) -> None:
    """The error is raised when all were asked."""
    shards.publish(delay_seconds=10.0)
    shards.worlds[0].clock.advance(11.0)
    shards.away(0)
    with pytest.raises(StoreUnavailable):
        shards.store.reap(max_deliveries=5)
    shards.away(0, is_away=False)
    assert shards.store.reap(max_deliveries=5) == 1


def test_a_purge_goes_over_all_shards_or_to_that_of_its_workspace(shards: Shards) -> None:
    """A workspace's jobs are on its shard alone; a queue's and a task's on all."""
    shards.publish()
    shards.publish(task="other")
    assert sum(shards.store.purge(None, HOMES[1])) == 2
    assert shards.counts() == [2, 0, 2]
    assert sum(shards.store.purge(task="other")) == 2
    assert shards.counts() == [1, 0, 1]
    assert sum(shards.store.purge("q")) == 2
    assert shards.store.depth("q") == 0


def test_a_purge_that_cancels_leaves_notices(shards: Shards) -> None:
    """A cancelled job's framework is told on whichever shard it was."""
    jobs = shards.publish()
    assert sum(shards.store.purge("q", cancelled=True)) == 3
    found = shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0)
    assert {letter.job.id for letter in found} == set(jobs)


@pytest.mark.parametrize("queue", [None, "q"])
def test_a_job_is_cancelled_on_the_shard_that_has_it(shards: Shards, queue: str | None) -> None:
    """A waiting one is removed, a running one is signalled; an unknown one is not found."""
    first, second, third = shards.publish()
    shards.worlds[2].worker().take_one()
    assert shards.store.cancel(second, queue) is Cancelled.REMOVED
    assert shards.store.cancel(third, queue) is Cancelled.SIGNALLED
    assert shards.store.cancel("unknown", queue) is Cancelled.NOT_FOUND
    assert shards.store.cancel(first, queue) is Cancelled.REMOVED


@pytest.mark.usefixtures("servers_apart")
def test_a_search_needs_only_the_shard_that_has_the_job(shards: Shards) -> None:
    """Another that is away is an error only where the job may be there."""
    _, _, third = shards.publish()
    shards.away(0)
    with pytest.raises(StoreUnavailable):
        shards.store.cancel("unknown")
    with pytest.raises(StoreUnavailable):
        shards.store.withdraw("unknown", "q")
    assert shards.store.cancel(third) is Cancelled.REMOVED


def test_a_job_is_withdrawn_from_the_shard_that_has_it(shards: Shards) -> None:
    """It is returned once."""
    jobs = shards.publish(payload=b"p")
    taken = shards.store.withdraw(jobs[1], "q")
    assert taken == Job(jobs[1], HOMES[1], "q", "t", b"p")
    assert shards.store.withdraw(jobs[1], "q") is None
    assert shards.counts() == [1, 0, 1]


def test_payloads_of_all_shards_are_searched(shards: Shards) -> None:
    """The ids come shard by shard."""
    jobs = shards.publish(payload=b'{"id": "one"}')
    shards.publish(payload=b"other")
    assert [i for page in shards.store.find("q", b"id") for i in page] == jobs
    assert [i for page in shards.store.find("q", b"id", [b"two"]) for i in page] == []


def test_a_workspaces_running_jobs_are_cancelled_on_its_shard(shards: Shards) -> None:
    """Those of other workspaces go on."""
    shards.publish()
    leases = [world.worker().take_one() for world in shards.worlds]
    assert sum(shards.store.cancel_running(HOMES[1])) == 1
    beats = [shards.worlds[i].worker().beat(leases[i]).cancelled for i in range(SHARDS)]
    assert beats == [frozenset(), frozenset({leases[1].fence}), frozenset()]


def test_a_workspace_is_paused_on_its_shard(shards: Shards) -> None:
    """The state before is returned."""
    shards.publish()
    assert shards.store.pause("workspace", HOMES[1], Pause.PAUSED) is None
    assert [len(world.worker().take(1)) for world in shards.worlds] == [1, 0, 1]
    assert [len(list(shard.pauses())) for shard in shards.store.shards] == [0, 1, 0]
    assert shards.store.pause("workspace", HOMES[1], None) is Pause.PAUSED


@pytest.mark.parametrize(("scope", "name"), [("queue", "q"), ("task", "t"), ("total", "")])
def test_all_else_is_paused_on_every_shard(shards: Shards, scope: str, name: str) -> None:
    """The state before is that of the first shard that had one."""
    shards.publish()
    shards.store.shards[2].pause(scope, name, Pause.DRAINING)
    assert shards.store.pause(scope, name, Pause.PAUSED) is Pause.DRAINING
    assert [len(world.worker().take(1)) for world in shards.worlds] == [0, 0, 0]
    assert shards.store.pause(scope, name, None) is Pause.PAUSED
    assert shards.store.pause(scope, name, None) is None
    assert [len(world.worker("w2").take(1)) for world in shards.worlds] == [1, 1, 1]


@pytest.mark.usefixtures("servers_apart")
def test_shards_are_paused_that_answer(shards: Shards) -> None:
    """One that is away raises, and the others hold the pause by then."""
    shards.publish()
    shards.away(0)
    with pytest.raises(StoreUnavailable):
        shards.store.pause("total", "", Pause.PAUSED)
    assert shards.worlds[1].worker().take(1) == shards.worlds[2].worker().take(1) == []


def test_dead_letters_are_those_of_the_workspaces_shard(shards: Shards) -> None:
    """They are listed, replayed and deleted there."""
    jobs = shards.publish()
    shards.kill()
    for job_id, name in zip(jobs, HOMES, strict=True):
        assert [letter.job.id for letter in shards.store.dead_letters(name)] == [job_id]
    assert shards.store.dead_letters(HOMES[1], job_id=jobs[0]) == []
    assert sum(shards.store.replay(HOMES[1])) == 1
    assert shards.counts() == [0, 1, 0]
    assert sum(shards.store.purge_dead(HOMES[2], job_id=jobs[2])) == 1
    assert [len(shards.store.dead_letters(name)) for name in HOMES] == [1, 0, 0]


def test_failure_notices_come_from_all_shards_and_are_dropped_on_theirs(shards: Shards) -> None:
    """Each is taken by one caller and reported once."""
    jobs = shards.publish()
    shards.kill()
    found = shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0)
    assert {letter.job.id for letter in found} == set(jobs)
    assert shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0) == []
    assert shards.store.drop_failure_notices(found) == 3
    assert shards.store.drop_failure_notices(found) == 0
    shards.worlds[0].clock.advance(31.0)
    assert shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0) == []


def test_a_few_notices_come_from_another_shard_each_time(shards: Shards) -> None:
    """A shard with many of them does not keep those of the others back."""
    for _ in range(3):
        shards.publish()
    sum(shards.store.purge("q", cancelled=True))
    taken = [shards.store.take_failure_notices(["q"], n=1, hold_seconds=30.0) for _ in range(3)]
    assert {letter.job.workspace for some in taken for letter in some} == set(HOMES)


@pytest.mark.usefixtures("servers_apart")
def test_notices_of_other_shards_are_taken_while_one_is_away(shards: Shards) -> None:
    """The error is raised by a call that finds none."""
    shards.publish()
    sum(shards.store.purge("q", cancelled=True))
    shards.away(1)
    found = shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0)
    assert {letter.job.workspace for letter in found} == {HOMES[0], HOMES[2]}
    with pytest.raises(StoreUnavailable):
        shards.store.take_failure_notices(["q"], n=9, hold_seconds=30.0)


def test_a_message_is_imported_once_it_is_out_of_its_list(shards: Shards) -> None:
    """No step has both a list and the shard; a repeat under the same id does nothing."""
    job = Job("j", HOMES[1], "q", "t", b"x")
    with pytest.raises(ConfigurationError, match=r"'celery'.* 3 shards.* take it from there first"):
        shards.store.import_message("celery", job, kind="task")
    for _ in range(2):
        assert shards.store.import_message("", job, kind="task")
    assert [shard.depth("q") for shard in shards.store.shards] == [0, 1, 0]
    assert shards.store.imported() == {"task": 1}


def test_imports_are_suspended_and_counted_on_all_shards(shards: Shards) -> None:
    """What was imported before is added."""
    shards.store.suspend_imports(60.0)
    for shard in shards.store.shards:
        with pytest.raises(FairQueueError, match="suspended"):
            shard.import_message("celery", Job("j", "a", "q", "t", b"x"), kind="task")
    shards.store.suspend_imports(0)
    for i, shard in enumerate(shards.store.shards):
        shard.engine.command("HSET", shard.engine.keys.key("imported"), "task", i)
    assert shards.store.imported() == {"task": 3}


def test_a_configuration_is_stored_on_every_shard(shards: Shards) -> None:
    """A workspace's limit holds on its shard, the default on all."""
    stored = StoredLimits(default=Limits(concurrency=1), workspaces={HOMES[1]: Limits(2)})
    assert not shards.store.has_limits()
    assert shards.store.configure(stored, authoritative=True)
    assert shards.store.has_limits()
    for _ in range(4):
        shards.publish()
    assert [len(world.worker().take(9)) for world in shards.worlds] == [1, 2, 1]
    assert not shards.store.configure(StoredLimits(default=Limits(3)), authoritative=False)


def test_a_shard_that_lost_its_limits_is_noticed_and_gets_them_again(shards: Shards) -> None:
    """The others keep theirs."""
    stored = StoredLimits(default=Limits(concurrency=1))
    shards.store.configure(stored, authoritative=True)
    engine = shards.store.shards[1].engine
    for kind in ("limits", "configured"):
        engine.command("DEL", engine.keys.key(kind))
    assert not shards.store.has_limits()
    assert shards.store.configure(stored, authoritative=False)
    assert shards.store.has_limits()
    assert [len(shard.get_limits("default", "")) for shard in shards.store.shards] == [1, 1, 1]


def test_replaced_limits_are_told_of_once(shards: Shards) -> None:
    """Not once for each shard."""
    told: list[tuple[list[str], int]] = []

    def tell(changes: Any, n: int) -> None:
        told.append((list(changes), n))

    for concurrency in (1, 1, 2):
        stored = StoredLimits(default=Limits(concurrency=concurrency))
        shards.store.configure(stored, authoritative=True, on_replaced=tell)
    ((changes, n),) = told
    assert n == 1
    assert "concurrency 1 → 2" in changes[0]


def test_live_limits_of_a_workspace_are_on_its_shard(shards: Shards) -> None:
    """They are read from there, and taken away there."""
    shards.store.set_limits("workspace", HOMES[2], Limits(concurrency=1))
    stored = [len(shard.get_limits("workspace", HOMES[2])) for shard in shards.store.shards]
    assert stored == [0, 0, 1]
    (found,) = shards.store.get_limits("workspace", HOMES[2])
    assert (found.source, found.limits) == ("live", Limits(concurrency=1))
    shards.store.set_limits("workspace", HOMES[2], None)
    assert shards.store.get_limits("workspace", HOMES[2]) == []


@pytest.mark.parametrize(
    ("scope", "name", "limits"),
    [
        ("default", "", Limits(concurrency=2)),
        ("task", "t", Limits(workspace_concurrency=2)),
    ],
)
def test_limits_of_each_workspace_are_on_all_shards(
    shards: Shards, scope: str, name: str, limits: Limits
) -> None:
    """Each workspace runs that many, wherever it lives; also of a task that ran before."""
    for _ in range(4):
        shards.publish()
    assert [len(world.worker("w1").take(1)) for world in shards.worlds] == [1, 1, 1]
    shards.store.set_limits(scope, name, limits)
    assert [len(world.worker("w2").take(9)) for world in shards.worlds] == [1, 1, 1]
    (found,) = shards.store.get_limits(scope, name)
    assert found.limits == limits


def test_a_limit_providers_answer_is_on_the_workspaces_shard(shards: Shards) -> None:
    """The others do not have it."""
    assert shards.store.put_provider_limits(HOMES[1], Limits(concurrency=1))
    assert not shards.store.put_provider_limits(HOMES[1], Limits(concurrency=1))
    assert shards.store.put_provider_limits(HOMES[1], None)
    for _ in range(2):
        shards.publish()
    assert [len(world.worker().take(9)) for world in shards.worlds] == [2, 2, 2]


def test_a_limit_providers_answers_are_forgotten_on_all_shards(shards: Shards) -> None:
    """A configuration without a provider does so."""
    shards.store.configure(StoredLimits(provided=True), authoritative=True)
    for name in HOMES:
        shards.store.put_provider_limits(name, Limits(concurrency=1))
    shards.store.configure(StoredLimits(), authoritative=True)
    assert [shards.store.get_limits("workspace", name) for name in HOMES] == [[], [], []]


def test_a_default_parent_is_refused(shards: Shards) -> None:
    """Configured or live, with the reason and what to do; nothing is stored."""
    limits, told = Limits(parent="org"), r"^default_parent='org': all .* 3 shards.* use shards=1$"
    with pytest.raises(ConfigurationError, match=told):
        shards.store.configure(StoredLimits(default=limits), authoritative=True)
    with pytest.raises(ConfigurationError, match=told):
        shards.store.set_limits("default", "", limits)
    assert not any(shard.has_limits() for shard in shards.store.shards)
    assert not any(shard.get_limits("default", "") for shard in shards.store.shards)
    alone = ShardedStore(shards.store.shards[:1])
    assert alone.configure(StoredLimits(default=limits), authoritative=True)


def test_limits_of_a_workspace_are_not_refused(shards: Shards) -> None:
    """They are counted on one shard."""
    own = Limits(9, 9, 2.0, 9.0, 9.0, reserve=1, requests=9)
    each = Limits(workspace_concurrency=1, workspace_rate=1.0, workspace_burst=2.0)
    stored = StoredLimits(
        default=Limits(concurrency=9, capacity=9, rate=9.0, burst=9.0, requests=9),
        workspaces={"a": own},
        tasks={"t": each},
    )
    assert shards.store.configure(stored, authoritative=True)
    for name in HOMES:
        shards.store.set_limits("workspace", name, own)
    shards.store.set_limits("task", "t", each)


def tickets(*names: str, owner: str = "p1") -> list[str]:
    """Name one request of each workspace."""
    return [replies.ticket(owner, name, i) for i, name in enumerate(names)]


def admit(store: AnyStore, ticket: str) -> str:
    """Ask for a place; return what came of it."""
    reply = store.admit_request(ticket, lease_seconds=LEASE_SECONDS, waiting_most=5)
    return reply.state


def test_a_request_is_of_its_workspaces_shard(shards: Shards) -> None:
    """It is admitted, counted and ended there; in all, those of every shard are counted."""
    shards.store.set_limits("default", "", Limits(requests=1))
    held = tickets(*HOMES, HOMES[1], ODD)
    assert [admit(shards.store, ticket) for ticket in held] == [
        "in_flight",
        "in_flight",
        "in_flight",
        "waits",
        "in_flight",
    ]
    assert shards.store.count_requests(HOMES[1]) == (4, 1, 1)
    assert shards.store.count_requests(ODD) == (4, 1, 0)
    assert shards.store.end_request(held[1])
    assert not shards.store.end_request(held[1])
    assert admit(shards.store, held[3]) == "in_flight"
    assert shards.store.count_requests(HOMES[1]) == (4, 1, 0)


@pytest.mark.parametrize("lose", [False, True])
def test_requests_are_renewed_on_every_shard(shards: Shards, lose: bool) -> None:
    """They live on; those that a shard has lost count again."""
    held = tickets(*HOMES)
    for ticket in held:
        admit(shards.store, ticket)
    if lose:
        shards.store.end_request(held[1])
    for _ in range(4):
        shards.worlds[0].clock.advance(LEASE_SECONDS / 2)
        shards.store.renew_requests(held, lease_seconds=LEASE_SECONDS)
    assert [shards.store.count_requests(name) for name in HOMES] == [(3, 1, 0)] * 3


def test_requests_of_other_shards_are_renewed_while_one_is_away(shards: Shards) -> None:
    """The error is raised when all were asked."""
    held = tickets(*HOMES)
    for ticket in held:
        admit(shards.store, ticket)
    shards.away(0)
    for _ in range(4):
        shards.worlds[0].clock.advance(LEASE_SECONDS / 2)
        with pytest.raises(StoreUnavailable):
            shards.store.renew_requests(held, lease_seconds=LEASE_SECONDS)
        new = tickets(HOMES[1], owner="p2")[0]
        reply = shards.store.admit_request(
            new, lease_seconds=LEASE_SECONDS, waiting_most=0, held=held
        )
        assert reply.state == "in_flight"
        assert shards.store.end_request(new)
    assert [shards.store.shards[i].count_requests(HOMES[i])[1] for i in (1, 2)] == [1, 1]
