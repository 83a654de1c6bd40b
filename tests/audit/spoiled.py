"""Worlds with something in every structure, and random damage to what is no truth.

Truth is jobs, leases, limits, dead letters, unique keys and schedules. All else is an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from fairqueue import Job
from fairqueue._keys import TYPES
from fairqueue._stores.engine import Engine
from fairqueue.adapters import Admission
from fairqueue.audit.keyspace import Keyspace
from tests.contract.world import World

TRUTH = ("jobs", "leases", "limits", "dead_letters", "unique", "schedules")
TASKS, WORKSPACES, QUEUES = ("t", "u", "limited"), ("eu", "us", "solo {1}", "slow"), ("q", "q2")
SPARED = {
    "shard",  # but for records of queues: fences, the clock, names and replies
    *("limits_with", "stored_by", "asked", "moved"),  # limits
    "counts",
    *("progress", "activity"),  # what jobs and workers say
    *("ended", "confirmed", "set_aside", "workers"),
}
"""What no rebuild writes again: neither truth nor an index of it."""
INDEXES = tuple(kind for kind in TYPES if kind not in {*TRUTH, *SPARED} and "request" not in kind)
OTHER_SCORES = (7.0, -1.0, 9e9, 1.7e9 + 5)


def truth_of(engine: Engine) -> dict[tuple[str, ...], Any]:
    """Everything that no rebuild may change."""
    space = Keyspace(engine)
    return {(kind, *names): value for kind in TRUTH for names, value in space.all(kind)}


def play(world: World, random: Random) -> None:
    """Make some random moves of producers, workers and operators."""
    world.limit("org", concurrency=3)
    world.limit("slow", rate=0.1)
    world.limit_task("limited", concurrency=2, workspace_rate=0.1)
    for name in ("eu", "us"):
        world.limit(name, parent="org", reserve=random.choice((None, 1)))
    worker, held = world.worker(), []
    for serial in range(random.randint(10, 40)):
        name, queue, task = (random.choice(of) for of in (WORKSPACES, QUEUES, TASKS))
        delay, expires = random.choice((0, 0, 0, 60)), random.choice((None, None, 90))
        priority, key = random.choice((0, 0, 9)), random.choice((None, None, f"k{serial}"))
        job = Job(f"j{serial}", name, queue, task, b"", priority, delay, expires)
        world.store.publish(job, Admission(unique_key=key))
        if random.random() < 0.5:
            held += worker.take(1, *QUEUES)
        if held and random.random() < 0.4:
            lease = held.pop(random.randrange(len(held)))
            random.choice((worker.finish, worker.release, worker.reject))(lease)
        if random.random() < 0.1:
            world.jobs.cancel(f"j{random.randint(0, serial)}")
        if random.random() < 0.1:
            put_schedule(world, name, f"s{serial}", random)
        world.clock.advance(random.choice((0.01, 0.1, 1)))
    world.clock.advance(0.0037)  # not just before a rate opens
    while world.reap():
        pass


def put_schedule(world: World, workspace: str, name: str, random: Random) -> None:
    """Put a schedule, and perhaps pause, trigger or hold it."""
    due = f"{world.clock() + random.choice((0, 60)):.3f}"
    record = {"runner": "core", "next": due, "delay": "0", "boot": "-"}
    world.store.put_schedule(workspace, name, **record, definition="{}")
    how = random.choice(("pause", "trigger", "hold", ""))
    if how == "hold":
        world.store.due_schedules(("core",), 1)
    elif how:
        world.store.change_schedule(workspace, name, how)


def spoil(engine: Engine, random: Random, most: int) -> list[str]:
    """Damage up to this many indexes; return what was done."""
    done = []
    for _ in range(random.randint(1, most)):
        space = Keyspace(engine)
        keys = sorted(
            {key for key in space.keys if key[0] in {*INDEXES, "shard"}} - space.foreign.keys()
        )
        if keys:
            kind, *names = random.choice(keys)
            done.append(_spoil(engine, random, kind, names, keys))
    return done


def _spoil(
    engine: Engine, random: Random, kind: str, names: Sequence[str], keys: Sequence[tuple[str, ...]]
) -> str:
    """Damage one key: the whole of it, or one entry."""
    key, how, chance = _key(engine, kind, *names), TYPES[kind], random.random()
    if kind == "shard":
        chance = max(chance, 0.2)
    if chance < 0.15 or how == "string":
        engine.command("UNLINK", key)
        return f"{key} is lost"
    if chance < 0.2:
        engine.command("UNLINK", key)
        engine.command(*(("RPUSH", key, "a") if how == "hash" else ("HSET", key, "a", "b")))
        return f"{key} is of another type"
    entry = random.choice(_entries(engine, kind, *names) or [b"queue:q"])
    if chance < 0.5:
        take = {"hash": "HDEL", "set": "SREM", "zset": "ZREM", "list": "LPOP"}[how]
        engine.command(take, key, *[entry] * (how != "list"))
        return f"{key} lacks {entry!r}"
    others = random.choice([key for key in keys if key[0] == kind])
    other = random.choice(
        [entry, *_entries(engine, *others), b"ghost" if kind != "shard" else b"queue:ghost"]
    )
    fields = _entries(engine, kind, *names) if how == "hash" else []
    texts = [engine.command("HGET", key, field) for field in fields]
    puts: dict[str, tuple[Any, ...]] = {
        "hash": ("HSET", key, other, random.choice([b"{}", *texts])),
        "zset": ("ZADD", key, random.choice(OTHER_SCORES), other),
        "set": ("SADD", key, other),
        "list": ("RPUSH", key, other),
    }
    engine.command(*puts[how])
    return " ".join(map(str, puts[how]))


def _entries(engine: Engine, kind: str, *names: str) -> list[bytes]:
    ask = {"hash": "HKEYS", "set": "SMEMBERS", "zset": "ZRANGE", "list": "LRANGE"}[TYPES[kind]]
    of = (0, -1) if "RANGE" in ask else ()
    found = sorted(engine.command(ask, _key(engine, kind, *names), *of))
    return [each for each in found if kind != "shard" or each.startswith(b"queue:")]


def _key(engine: Engine, *parts: str) -> str:
    """Spell a key of parts that are encoded."""
    return engine.keys.prefix + ":".join(parts)
