"""The audit finds each kind of damage, and reports nothing on a sound store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from fairqueue._keys import encode
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.audit.checks import audit
from fairqueue.audit.keyspace import Keyspace
from fairqueue.testing import ManualClock
from tests.contract.world import World

Damage = Callable[[Engine], object]


def _cut_lane(engine: Engine) -> object:
    return engine.command("LPOP", engine.keys.key("lane", "busy {1}", "q", "0"))


def _copy_job(engine: Engine) -> object:
    lane = engine.keys.key("lane", "busy {1}", "q", "0")
    return engine.command("RPUSH", lane, engine.command("LINDEX", lane, 0))


def _take_one(key: str) -> Damage:
    """Remove a member of a set."""

    def damage(engine: Engine) -> object:
        name = engine.keys.prefix + key
        return engine.command("SREM", name, next(iter(engine.command("SMEMBERS", name))))

    return damage


def _take_field(key: str) -> Damage:
    """Remove a field of a hash."""

    def damage(engine: Engine) -> object:
        name = engine.keys.prefix + key
        return engine.command("HDEL", name, engine.command("HKEYS", name)[0])

    return damage


def _take_first(key: str) -> Damage:
    """Remove the first member of a sorted set."""

    def damage(engine: Engine) -> object:
        name = engine.keys.prefix + key
        return engine.command("ZREM", name, engine.command("ZRANGE", name, 0, 0)[0])

    return damage


def _move_first(key: str) -> Damage:
    """Give the first member of a sorted set the score 7."""

    def damage(engine: Engine) -> object:
        name = engine.keys.prefix + key
        return engine.command("ZADD", name, 7, engine.command("ZRANGE", name, 0, 0)[0])

    return damage


def _serve_queue(fence: str) -> Damage:
    """Change the fence of a queue's last dispatch."""

    def damage(engine: Engine) -> object:
        nodes = engine.keys.key("nodes")
        *words, _ = engine.command("HGET", nodes, "q").decode().split()
        return engine.command("HSET", nodes, "q", " ".join([*words, fence]))

    return damage


def _change_meta(position: int, text: str) -> Damage:
    """Change one word in the shard's own record."""

    def damage(engine: Engine) -> object:
        words = engine.command("GET", engine.keys.key("meta")).decode().split()
        words[position] = text
        return engine.command("SET", engine.keys.key("meta"), " ".join(words))

    return damage


def _spoil_first(key: str) -> Damage:
    """Write something else into the first field of a hash, or a new one."""

    def damage(engine: Engine) -> object:
        name = engine.keys.prefix + key
        return engine.command("HSET", name, (engine.command("HKEYS", name) or ["/7"])[0], "{}")

    return damage


def _put_off_a_flow(engine: Engine) -> None:
    """Write that a claim failed at a ready flow."""
    workspaces = engine.keys.key("workspaces")
    text = engine.command("HGET", workspaces, "back").decode()
    engine.command("HSET", workspaces, "back", text.replace(";q3 ready ", ";q3 failed "))


def _age_a_fence(engine: Engine) -> None:
    """Give a lease the fence 7 at all of its levels."""
    key = engine.keys.key
    job = engine.command("HKEYS", key("slots_of_queue", "q"))[0]
    old = engine.command("HGET", key("slots_of_queue", "q"), job)
    name = engine.command("HGET", key("leases"), old).decode().split()[2]
    engine.command("HSET", key("leases"), 7, engine.command("HGET", key("leases"), old))
    engine.command("HDEL", key("leases"), old)
    engine.command("ZADD", key("expiry"), engine.command("ZSCORE", key("expiry"), old), 7)
    engine.command("ZREM", key("expiry"), old)
    engine.command("HSET", key("slots_of_queue", "q"), job, 7)
    engine.command("SREM", engine.keys.prefix + f"slots_of_workspace:{name}", old)
    engine.command("SADD", engine.keys.prefix + f"slots_of_workspace:{name}", 7)


DAMAGES: dict[str, tuple[str, Damage]] = {
    "a job is in no lane": ("I3", _cut_lane),
    "a job is in two places": ("I3", _copy_job),
    "a job that came back is in no lane": ("I3", _take_first("returned:back:q3:0")),
    "a job came back to another place": ("I3", _move_first("returned:back:q3:0")),
    "a lease lacks a level": ("I4", _take_one("slots_of_workspace:full")),
    "a running job is not listed in its queue": ("I4", _take_field("slots_of_queue:q")),
    "a lease has no end": ("I4", _take_first("expiry")),
    "a queue was served before its leases were granted": ("I4", _serve_queue("1")),
    "a queue was served with a fence that was never issued": ("I4", _serve_queue("9" * 16)),
    "a lease lasts too long": (
        "I4",
        lambda e: e.command(
            "ZADD",
            e.keys.key("expiry"),
            2e9,
            e.command("ZRANGE", e.keys.key("expiry"), 0, 0)[0],
        ),
    ),
    "a fence is above the last one": ("I4", _change_meta(0, "7")),
    "a fence is below the time of its claim": ("I4", _age_a_fence),
    "a runnable workspace is not ready": ("I1", _take_first("ready:q")),
    "a limit is exceeded": (
        "I2",
        lambda e: e.command("HSET", e.keys.key("limits"), "live:queue:q", "concurrency=1"),
    ),
    "a limit was raised and its workspace was not settled": (
        "I1",
        lambda e: e.command("HSET", e.keys.key("limits"), "live:workspace:full", "concurrency=5"),
    ),
    "a lease was granted after the last beat": ("I12", _change_meta(2, "1")),
    "the clock is set back": ("I12", _change_meta(8, "-1")),
    "a depth is wrong": (
        "I6",
        lambda e: e.command("HSET", e.keys.key("jobs", "q"), "more", "a 1 0 0 0 1\n"),
    ),
    "no worker is woken": ("I7", lambda e: e.command("DEL", e.keys.key("token", "q"))),
    "two are woken": ("I7", lambda e: e.command("RPUSH", e.keys.key("token", "q"), 1)),
    "a task has no name": ("I3", lambda e: e.command("DEL", e.keys.key("tasks"))),
    "a task has two names": (
        "I3",
        lambda e: e.command("HSET", e.keys.key("tasks"), "#1700000000000000", "another"),
    ),
    "a timer is lost": ("I3", lambda e: e.command("DEL", e.keys.key("timer"))),
    "a key is unknown": ("I9", lambda e: e.command("SET", e.keys.prefix + "what:is:this", 1)),
    "a key may expire": (
        "I9",
        lambda e: e.command("SET", e.keys.key("retention"), "- -", "PX", 1_000_000),
    ),
    "a record was set aside": (
        "I13",
        lambda e: e.command("HSET", e.keys.key("set_aside"), "job q x", "1700000000.0 {}"),
    ),
    **{
        f"a record of {kind} cannot be read": ("I13", _spoil_first(kind))
        for kind in ("workspaces", "leases", "nodes", "jobs:q", "shared_limits")
    },
    "the keys have another format": ("I13", _change_meta(9, "format=2")),
    "the keys have no format": ("I13", _change_meta(9, "")),
    "publishes take the short way beside a capacity": (
        "I14",
        lambda e: (
            e.command("HSET", e.keys.key("tasks"), "#plain", 1),
            e.command("HSET", e.keys.key("limits"), "capacity", 1),
        ),
    ),
    "a flow that was put off has no timer": ("I1", _put_off_a_flow),
    "a finish tag has no flow": (
        "I11",
        lambda e: e.command("ZADD", e.keys.key("finish", "q"), 1.0, "ghost"),
    ),
    "a letter has no age": (
        "I11",
        lambda e: e.command("DEL", e.keys.key("dead_letters_by_age", "busy {1}")),
    ),
    "a notice has no letter": (
        "I11",
        lambda e: e.command("ZADD", e.keys.key("unreported", "q"), 1.0, "a x"),
    ),
    "a set of ended ids is left": (
        "I11",
        lambda e: e.command("SADD", e.keys.key("ended", "7"), "x"),
    ),
    "a cancelled job has no notice": (
        "I11",
        lambda e: e.command("DEL", e.keys.key("unreported", "q2")),
    ),
    "limits of a provider cannot be forgotten": (
        "I11",
        lambda e: e.command("HSET", e.keys.key("limits"), "provider:workspace:x", "concurrency=1"),
    ),
    "a workspace below its reserve does not go first": (
        "I1",
        lambda e: e.command(
            "HSET", e.keys.key("limits"), f"live:workspace:{encode('busy {1}')}", "reserve=99"
        ),
    ),
    "a workspace goes first without a reserve": (
        "I1",
        lambda e: e.command("ZADD", e.keys.key("reserved", "q"), 1.0, "000000000000001:ghost"),
    ),
    "a workspace with leases has no record": (
        "I11",
        lambda e: e.command("HDEL", e.keys.key("workspaces"), encode("busy {1}")),
    ),
    "a dead letter is not listed": (
        "I11",
        lambda e: e.command("DEL", e.keys.key("dead_workspaces")),
    ),
    "a count does not say when it was last raised": (
        "I11",
        lambda e: e.command("HSET", e.keys.key("lost"), "a", "3"),
    ),
    "a job has a key that is another's": (
        "I11",
        lambda e: e.command("HSET", e.keys.key("keyed"), "q x", "a:1:k"),
    ),
    "a queue with jobs is marked as unused": ("I11", _serve_queue("1700000000000005 1/1")),
    "a queue is of no known kind": (
        "I11",
        lambda e: e.command("HSET", e.keys.key("kinds"), "q", "what"),
    ),
    "the cleanup does not go on": (
        "I11",
        lambda e: e.command("SET", e.keys.key("cleanup"), "1 0 9000000000 0 0"),
    ),
}


def _change_node(position: int, text: str) -> Damage:
    """Change one word in the record of the group's inner node."""

    def damage(engine: Engine) -> object:
        nodes = engine.keys.key("inner_nodes")
        words = engine.command("HGET", nodes, "q@org").decode().split()
        words[position] = text
        return engine.command("HSET", nodes, "q@org", " ".join(words))

    return damage


def _shared(engine: Engine, kind: str, key: str) -> str:
    return f"{engine.keys.prefix}{kind}:{key}"


NUMBER = "1700000000000000"  # of the first task: the time at which the clock begins
GROUP, TASK = "@org", f"/{NUMBER}"

SHARED_DAMAGES: dict[str, tuple[str, Damage]] = {
    "a lease does not count for its group": (
        "I4",
        _take_one("slots_of_shared_limit:@org"),
    ),
    "a lease does not count for its task": (
        "I4",
        _take_one(f"slots_of_shared_limit:{TASK}"),
    ),
    "a lease does not count for its workspace and task": (
        "I4",
        lambda e: e.command("DEL", _shared(e, "slots_of_workspace_task", f"eu:{NUMBER}")),
    ),
    "a task's limit is exceeded": (
        "I2",
        lambda e: e.command("HSET", e.keys.key("limits"), f"live:task:{NUMBER}", "concurrency=0"),
    ),
    "a closed inner node is ready": (
        "I1",
        lambda e: e.command("HSET", e.keys.key("limits"), "live:workspace:org", "concurrency=1"),
    ),
    "a task is paused and its inner node is not closed": (
        "I10",
        lambda e: e.command("HSET", e.keys.key("limits"), f"pause:task:{NUMBER}", "paused=1"),
    ),
    "a shared limit is closed and not full": (
        "I10",
        lambda e: e.command("HSET", e.keys.key("shared_limits"), "@org", "at_limit 0 -"),
    ),
    "nodes of a shared limit are never reached": (
        "I10",
        lambda e: e.command("HSET", e.keys.key("shared_limits"), "@org", "- 0 - q@org<"),
    ),
    "an inner node weighs too much": ("I5", _change_node(3, "7000000")),
    "an inner node counts a member that is not there": ("I5", _change_node(4, "9")),
    "an inner node counts a member that is not held back": ("I5", _change_node(5, "9")),
    "an inner node is not in its node": (
        "I1",
        lambda e: e.command("DEL", e.keys.key("ready", "q")),
    ),
    "an inner node is not listed": (
        "I3",
        lambda e: e.command("DEL", _shared(e, "nodes_of_shared_limit", GROUP)),
    ),
    "a workspace is in another group": (
        "I3",
        lambda e: e.command("HSET", e.keys.key("limits"), "live:workspace:eu", "parent=other"),
    ),
}


@pytest.fixture(params=["memory", "redis"])
def engine(request: pytest.FixtureRequest, namespace: str) -> Iterator[Engine]:
    """Each engine, with keys that nothing else uses."""
    engine: Engine = MemoryEngine(namespace=namespace)
    if request.param == "redis":
        engine = RedisEngine(request.getfixturevalue("redis_client"), namespace=namespace)
    yield engine
    engine.close()


@pytest.fixture
def store(engine: Engine, clock: ManualClock) -> Store:
    """A store on the engine."""
    return Store(engine, clock=clock)


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    """A store with something in every structure."""
    world = World(store, clock)
    world.limit("full", concurrency=1)
    world.limit("slow", rate=0.1)
    world.publish_many(3, "back", queue="q3")
    worker = world.worker()
    for lease in worker.take(2, "q3"):
        worker.release(lease)
    for workspace in ("busy {1}", "full", "slow"):
        world.publish_many(3, workspace)
        world.publish(workspace, delay_seconds=60)
    leases = worker.take(5)
    worker.reject(leases[0])
    worker.finish(leases[3], 0.5)
    world.publish_many(3, "busy {1}")
    world.store.cancel(world.publish("gone", queue="q2"))
    return world


def test_a_sound_store_has_no_findings(world: World, engine: Engine) -> None:
    """The audit reports nothing."""
    assert audit(engine, now=world.clock()) == []


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found(world: World, engine: Engine, name: str) -> None:
    """The audit reports each kind of damage under its invariant."""
    invariant, damage = DAMAGES[name]
    damage(engine)
    found = audit(engine, now=world.clock())
    assert invariant in {finding.invariant for finding in found}


@pytest.mark.parametrize("name", ["a runnable workspace is not ready", "a lease lacks a level"])
def test_a_second_look_finds_it_again_under_traffic(
    world: World, engine: Engine, name: str
) -> None:
    """A finding names what is damaged, not all that is beside it."""
    DAMAGES[name][1](engine)
    first = audit(engine, now=world.clock())
    world.publish_many(3, "another")
    world.worker("w2").take(1)
    assert set(first) & set(audit(engine, now=world.clock()))


@pytest.fixture
def shared_world(store: Store, clock: ManualClock) -> World:
    """A group and a limited task, each with running and waiting jobs."""
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


def test_shared_limits_leave_no_findings(shared_world: World, engine: Engine) -> None:
    """The audit reports nothing on a store with a group and a limited task."""
    assert audit(engine, now=shared_world.clock()) == []


@pytest.mark.parametrize("name", SHARED_DAMAGES)
def test_damage_to_shared_limits_is_found(shared_world: World, engine: Engine, name: str) -> None:
    """The audit reports each kind of damage under its invariant."""
    invariant, damage = SHARED_DAMAGES[name]
    damage(engine)
    found = audit(engine, now=shared_world.clock())
    assert invariant in {finding.invariant for finding in found}


def test_the_audit_uses_the_engines_clock_by_default(engine: Engine) -> None:
    """Without a time, the audit takes the clock that the scripts use."""
    World(Store(engine), ManualClock()).publish()
    assert audit(engine) == []


def test_keys_that_go_after_the_scan_are_no_findings(
    redis_client: redis.Redis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a live server tokens and schedules come and go while the keys are read."""
    engine = RedisEngine(redis_client, namespace=namespace)
    World(Store(engine), ManualClock()).publish()
    gone = [engine.keys.key(kind, "gone").encode() for kind in ("token", "scheduled", "claimer")]
    found = list(redis_client.scan_iter(match=engine.keys.prefix + "*"))
    monkeypatch.setattr(redis_client, "scan_iter", lambda **_: [*found, *gone])
    assert audit(engine) == []
    assert sorted(found) == [entry.key for entry in engine.dump()]


def test_keys_of_jobs_never_expire(world: World, engine: Engine) -> None:
    """Only records of replies have a time to live, and all of them have."""
    world.publish(group="g")
    space = Keyspace(engine)
    assert space.mortal == {"claimer"}
    assert not space.mortal & space.immortal


def test_every_key_has_one_hash_tag(redis_client: redis.Redis, namespace: str) -> None:
    """All keys that a store has left on this server begin with ``{namespace:0}:``."""
    world = World(Store(RedisEngine(redis_client, namespace=namespace)), ManualClock())
    world.publish("a:b {c}", "x}{", queue="q {2}", task="{t}")
    for key in redis_client.scan_iter(match="{*", count=1000):
        namespace, _, rest = key.decode().removeprefix("{").partition(":0}:")
        assert namespace
        assert "{" not in namespace + rest
        assert "}" not in namespace + rest


def test_idle_workspaces_leave_no_keys(store: Store, clock: ManualClock) -> None:
    """The number of keys does not grow with the workspaces that have come and gone."""
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
        space = Keyspace(store.engine)
        return sum(
            len(members)
            for kind in ("finish", "indebted", "lane")
            for _, members in space.all(kind)
        )

    first, then = come_and_go(range(300)), come_and_go(range(300, 1000))
    assert then <= first + 1
    assert first <= 40
