"""The auditor finds each kind of damage, and nothing where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from fairqueue import Limits
from fairqueue._keys import Keys, encode
from fairqueue._stores.redis import RedisStore
from fairqueue._stores.redis.audit import audit
from fairqueue._stores.redis.keyspace import Keyspace
from fairqueue.testing import ManualClock
from tests.contract.world import World

Damage = Callable[[redis.Redis, Keys], object]


def _first(value: object) -> str:
    return next(iter(value)).decode()  # type: ignore[call-overload,no-any-return]


def _cut_lane(client: redis.Redis, keys: Keys) -> object:
    return client.lpop(keys.key("lane", "busy {1}", "q", "0"))


def _copy_job(client: redis.Redis, keys: Keys) -> object:
    lane = keys.key("lane", "busy {1}", "q", "0")
    return client.rpush(lane, client.lindex(lane, 0))  # type: ignore[arg-type]


def _drop_slot(client: redis.Redis, keys: Keys) -> object:
    return client.spop(keys.key("slots_of_queue", "q"))


def _leave_ready(client: redis.Redis, keys: Keys) -> object:
    return client.zpopmin(keys.key("ready", "q"))


DAMAGES: dict[str, tuple[str, Damage]] = {
    "a job is in no lane": ("I3", _cut_lane),
    "a job is in two places": ("I3", _copy_job),
    "a lease lacks a level": ("I4", _drop_slot),
    "a lease has no end": ("I4", lambda c, k: c.zremrangebyrank(k.key("expiry"), 0, 0)),
    "a runnable workspace is not ready": ("I1", _leave_ready),
    "a limit is exceeded": (
        "I2",
        lambda c, k: c.hset(k.key("limits"), "live:queue:q", "concurrency=1"),
    ),
    "a limit was raised and nobody was settled": (
        "I1",
        lambda c, k: c.hset(k.key("limits"), "live:workspace:parked", "concurrency=5"),
    ),
    "a depth is wrong": ("I6", lambda c, k: c.hset(k.key("jobs", "q"), "more", "a 1 0 0 0 1\n")),
    "nobody is woken": ("I7", lambda c, k: c.delete(k.key("token", "q"))),
    "two are woken": ("I7", lambda c, k: c.rpush(k.key("token", "q"), 1)),
    "a timer is lost": ("I3", lambda c, k: c.delete(k.key("timer"))),
    "a key is nobody's": ("I9", lambda c, k: c.set(k.prefix + "what:is:this", 1)),
    "a job may expire": ("I9", lambda c, k: c.expire(k.key("jobs", "q"), 1000)),
    "F of nobody": ("I11", lambda c, k: c.zadd(k.key("finish", "q"), {"ghost": 1.0})),
    "a letter has no age": ("I11", lambda c, k: c.delete(k.key("graves", "busy {1}"))),
    "a notice is of nobody": ("I11", lambda c, k: c.zadd(k.key("untold", "q"), {"a x": 1.0})),
    "given limits are nobody's": (
        "I11",
        lambda c, k: c.hset(k.key("limits"), "given:workspace:x", "concurrency=1"),
    ),
    "who is below its reserve does not go first": (
        "I1",
        lambda c, k: c.hset(k.key("limits"), f"live:workspace:{encode('busy {1}')}", "reserve=99"),
    ),
    "somebody goes first without a reserve": (
        "I1",
        lambda c, k: c.zadd(k.key("first", "q"), {"000000000000001:ghost": 1.0}),
    ),
    "a grave is not listed": ("I11", lambda c, k: c.delete(k.key("dead_workspaces"))),
}


def _change_branch(position: int, text: str) -> Damage:
    """Write another word into the record of the branch of the group."""

    def damage(client: redis.Redis, keys: Keys) -> object:
        words = client.hget(keys.key("branches"), "q@org").decode().split()  # type: ignore[union-attr]
        words[position] = text
        return client.hset(keys.key("branches"), "q@org", " ".join(words))

    return damage


def _gate(keys: Keys, kind: str, gate: str) -> str:
    return f"{keys.prefix}{kind}:{gate}"


GROUP_GATE, TASK_GATE = "@org", "/1"

SHARED_DAMAGES: dict[str, tuple[str, Damage]] = {
    "a lease is not at its group's gate": (
        "I4",
        lambda c, k: c.spop(_gate(k, "slots_of_gate", "@org")),
    ),
    "a lease is not at its task's gate": (
        "I4",
        lambda c, k: c.spop(_gate(k, "slots_of_gate", TASK_GATE)),
    ),
    "a lease is not in its workspace's share": (
        "I4",
        lambda c, k: c.delete(_gate(k, "slots_of_share", "eu:1")),
    ),
    "a task's limit is exceeded": (
        "I2",
        lambda c, k: c.hset(k.key("limits"), "live:task:1", "concurrency=0"),
    ),
    "a closed branch is ready": (
        "I1",
        lambda c, k: c.hset(k.key("limits"), "live:workspace:org", "concurrency=1"),
    ),
    "a task is paused and its branch is not closed": (
        "I10",
        lambda c, k: c.hset(k.key("limits"), "pause:task:1", "paused=1"),
    ),
    "a gate is closed and not full": (
        "I10",
        lambda c, k: c.hset(k.key("gates"), "@org", "parked 0 -"),
    ),
    "a branch weighs too much": ("I5", _change_branch(3, "7000000")),
    "a branch counts who is not there": ("I5", _change_branch(4, "9")),
    "a branch is not in its node": ("I1", lambda c, k: c.delete(k.key("ready", "q"))),
    "a branch is not listed": (
        "I3",
        lambda c, k: c.delete(_gate(k, "branches_of_gate", GROUP_GATE)),
    ),
    "a workspace is in another group": (
        "I3",
        lambda c, k: c.hset(k.key("limits"), "live:workspace:eu", "parent=other"),
    ),
}


@pytest.fixture
def store(redis_client: redis.Redis, namespace: str, clock: ManualClock) -> Iterator[RedisStore]:
    """A Redis store that nobody else uses."""
    store = RedisStore(redis_client, namespace=namespace, clock=clock)
    yield store
    store.close()


@pytest.fixture
def world(store: RedisStore, clock: ManualClock) -> World:
    """A store with something in every structure."""
    world = World(store, clock)
    world.limit("parked", concurrency=1)
    world.limit("slow", rate=0.1)
    for workspace in ("busy {1}", "parked", "slow"):
        world.publish_many(3, workspace)
        world.publish(workspace, delay_seconds=60)
    worker = world.worker()
    leases = worker.take(5)
    worker.reject(leases[0])
    worker.finish(leases[3], 0.5)
    world.publish_many(3, "busy {1}")
    return world


def test_a_sound_store_has_no_findings(world: World, store: RedisStore) -> None:
    """Nothing is found where nothing is wrong."""
    assert audit(store.client, store.keys, now=world.clock()) == []


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found(world: World, store: RedisStore, name: str) -> None:
    """Each kind is found under its invariant."""
    invariant, damage = DAMAGES[name]
    damage(store.client, store.keys)
    found = audit(store.client, store.keys, now=world.clock())
    assert invariant in {finding.invariant for finding in found}


@pytest.fixture
def shared_world(store: RedisStore, clock: ManualClock) -> World:
    """A group and a limited task, with jobs that run and jobs that wait in both."""
    world = World(store, clock)
    world.limit("org", concurrency=3)
    world.limit_task("report", concurrency=1)
    for name in ("eu", "us"):
        world.limit(name, parent="org")
        world.publish_many(3, name)
    world.publish("eu", task="report")
    world.publish("other", task="report")
    world.worker().take(2)
    return world


def test_shared_limits_leave_no_findings(shared_world: World, store: RedisStore) -> None:
    """Nothing is found where nothing is wrong."""
    assert audit(store.client, store.keys, now=shared_world.clock()) == []


@pytest.mark.parametrize("name", SHARED_DAMAGES)
def test_damage_to_shared_limits_is_found(
    shared_world: World, store: RedisStore, name: str
) -> None:
    """Each kind is found under its invariant."""
    invariant, damage = SHARED_DAMAGES[name]
    damage(store.client, store.keys)
    found = audit(store.client, store.keys, now=shared_world.clock())
    assert invariant in {finding.invariant for finding in found}


def test_without_a_time_it_takes_the_servers(redis_client: redis.Redis, namespace: str) -> None:
    """As the scripts do."""
    store = RedisStore(redis_client, namespace=namespace)
    World(store, ManualClock()).publish()
    assert audit(redis_client, store.keys) == []
    store.close()


def test_keys_of_jobs_never_expire(world: World, store: RedisStore) -> None:
    """Only what remembers replies, ended ids and groups has a time to live, and all of it has."""
    world.publish(group="g")
    space = Keyspace(store.client, store.keys)
    assert space.mortal == {"claimer", "ended", "groups"}
    assert not space.mortal & space.immortal


def test_every_key_has_one_hash_tag(world: World, redis_client: redis.Redis) -> None:
    """All keys that any store has left on this server lie under ``{namespace:0}:``."""
    world.publish("a:b {c}", "x}{", queue="q {2}", task="{t}")
    for key in redis_client.scan_iter(match="{*", count=1000):
        namespace, _, rest = key.decode().removeprefix("{").partition(":0}:")
        assert namespace
        assert "{" not in namespace + rest
        assert "}" not in namespace + rest


def test_nothing_is_left_of_who_has_finished(store: RedisStore, clock: ManualClock) -> None:
    """A thousand workspaces that came and went leave a number of keys that does not grow."""
    world = World(store, clock)
    worker = world.worker()

    def come_and_go(names: range) -> int:
        for n in names:
            world.publish(f"w{n}")
        while leases := worker.take(50):
            for lease in leases:
                worker.finish(lease, 0.0)
        for _ in range(40):
            world.publish("last")
            worker.finish(worker.take_one(), 0.0)
        space = Keyspace(store.client, store.keys)
        return sum(
            len(members) for kind in ("finish", "resting", "lane") for _, members in space.all(kind)
        )

    first, then = come_and_go(range(300)), come_and_go(range(300, 1000))
    assert then <= first + 1
    assert first <= 40


def test_a_claim_is_bounded(store: RedisStore, clock: ManualClock) -> None:
    """Whatever has piled up, one claim moves a bounded number of jobs and settles as many."""
    world = World(store, clock)
    for n in range(300):
        world.publish(f"w{n}", delay_seconds=1)
    store.set_limits("default", "", Limits(concurrency=1))
    clock.advance(2)
    before = store.client.info("commandstats")
    world.worker().take(1)
    after = store.client.info("commandstats")
    calls = sum(stats["calls"] for stats in after.values()) - sum(
        stats["calls"] for stats in before.values()
    )
    assert calls < 1500
