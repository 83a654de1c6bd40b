"""Every kind of damage that the auditor knows, by its invariant."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial

from fairqueue._keys import encode
from fairqueue._stores.engine import Engine

Damage = Callable[[Engine], object]


def _cut_lane(engine: Engine) -> object:
    return engine.command("LPOP", engine.keys.key("lane", "busy {1}", "q", "0"))


def _copy_job(engine: Engine) -> object:
    lane = engine.keys.key("lane", "busy {1}", "q", "0")
    return engine.command("RPUSH", lane, engine.command("LINDEX", lane, 0))


def _at_first(
    act: str, listing: str, key: str, *, before: tuple[int, ...] = (), after: tuple[str, ...] = ()
) -> Damage:
    """Run a command on the first field or member of a key, or a new one."""

    def damage(engine: Engine) -> object:
        name = engine.keys.prefix + key
        found = engine.command(listing, name, *((0, 0) if listing == "ZRANGE" else ()))
        return engine.command(act, name, *before, next(iter(found), "/7"), *after)

    return damage


_take_one = partial(_at_first, "SREM", "SMEMBERS")
_take_field = partial(_at_first, "HDEL", "HKEYS")
_take_first = partial(_at_first, "ZREM", "ZRANGE")
_move_first = partial(_at_first, "ZADD", "ZRANGE", before=(7,))
_spoil_first = partial(_at_first, "HSET", "HKEYS", after=("{}",))


def _put(key: str, field: str, text: str) -> Damage:
    """Write a field of a hash."""
    return lambda engine: engine.command("HSET", engine.keys.prefix + key, field, text)


def _run(command: str, key: tuple[str, ...], *arguments: str | float) -> Damage:
    """Run a command on the key of this kind and these names."""
    return lambda engine: engine.command(command, engine.keys.key(*key), *arguments)


def _change(position: int, text: str, *, of: tuple[str, str]) -> Damage:
    """Change one word of a record: of this kind and field."""

    def damage(engine: Engine) -> object:
        key = engine.keys.key(of[0])
        words = engine.command("HGET", key, of[1]).decode().split()
        words[position] = text
        return engine.command("HSET", key, of[1], " ".join(words))

    return damage


def _change_shard(start: int, text: bytes) -> Damage:
    """Write this over the shard's own record, from this byte on."""

    def damage(engine: Engine) -> object:
        key = engine.keys.key("shard")
        record = engine.command("HGET", key, "record")
        after = record[start + len(text) :] if start >= 0 else b""
        return engine.command("HSET", key, "record", record[:start] + text + after)

    return damage


def _change_number(position: int, number: float) -> Damage:
    """Change one number of the shard's own record."""
    return _change_shard(8 * position, struct.pack("<d", number))


_change_node = partial(_change, of=("inner_nodes", "q@org"))


def _serve_queue(fence: int, marks: bytes = b"") -> Damage:
    """Change the fence of a queue's last dispatch, and what follows it."""

    def damage(engine: Engine) -> object:
        key = engine.keys.key("shard")
        record = engine.command("HGET", key, "queue:q")[:48] + struct.pack("<d", fence)
        return engine.command("HSET", key, "queue:q", record + marks)

    return damage


def _a_ready_flow_is(state: str) -> Damage:
    """Write another state of a ready flow."""

    def damage(engine: Engine) -> object:
        workspaces = engine.keys.key("workspaces")
        text = engine.command("HGET", workspaces, "back").decode()
        return engine.command(
            "HSET", workspaces, "back", text.replace(";q3 ready ", f";q3 {state} ")
        )

    return damage


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
    engine.command("SREM", engine.keys.prefix + f"slots:{name}", old)
    engine.command("SADD", engine.keys.prefix + f"slots:{name}", 7)


TASK_NAME = "report"

DAMAGES: dict[str, tuple[str, Damage]] = {
    "a job is in no lane": ("I3", _cut_lane),
    "a job is in two places": ("I3", _copy_job),
    "a job that came back is in no lane": ("I3", _take_first("returned:back:q3:0")),
    "a job came back to another place": ("I3", _move_first("returned:back:q3:0")),
    "a lease lacks a level": ("I4", _take_one("slots:full")),
    "a running job is not listed in its queue": ("I4", _take_field("slots_of_queue:q")),
    "a lease has no end": ("I4", _take_first("expiry")),
    "a queue was served before its leases were granted": ("I4", _serve_queue(1)),
    "a queue was served with a fence that was never issued": ("I4", _serve_queue(9 * 10**15)),
    "a lease lasts too long": (
        "I4",
        lambda e: e.command(
            "ZADD",
            e.keys.key("expiry"),
            2e15,
            e.command("ZRANGE", e.keys.key("expiry"), 0, 0)[0],
        ),
    ),
    "a fence is above the last one": ("I4", _change_number(3, 7)),
    "a fence is below the time of its claim": ("I4", _age_a_fence),
    "a runnable workspace is not ready": ("I1", _take_first("ready:q")),
    "a limit is exceeded": ("I2", _put("limits", "live:queue:q", "concurrency=1")),
    "a limit was raised and its workspace was not settled": (
        "I1",
        _put("limits", "live:workspace:full", "concurrency=5"),
    ),
    "a lease was granted after the last beat": ("I12", _change_number(0, 1)),
    "no call looks before a lease ends": ("I12", _change_number(6, 10.0**16)),
    "a job stands nowhere": ("I3", _put("jobs:q", "a/q/more", "a 1 0 0 0 1\n")),
    "a queue with jobs has no record": ("I6", _run("HDEL", ("shard",), "queue:q")),
    "no worker is woken": ("I7", _run("DEL", ("token", "q"))),
    "two are woken": ("I7", _run("RPUSH", ("token", "q"), 1)),
    "a hole is of no element": (
        "I3",
        _run("HSET", ("holes", "full", "q", "0"), f"{TASK_NAME}:ghost", 1),
    ),
    "an expiry is of no job": (
        "I3",
        _run("ZADD", ("expiring", "full"), 1.7e9 + 90, f"q 0 {TASK_NAME}:ghost"),
    ),
    "a place of a request that is over is taken": (
        "I15",
        _run("ZADD", ("requests_of_workspace", "full"), 0, "p/full/1"),
    ),
    "a request that is over waits": (
        "I15",
        _run("ZADD", ("requests_of_workspace", "full"), 5, "p/full/1", -5, "turn"),
    ),
    "a timer is lost": ("I3", _run("DEL", ("timer",))),
    "a key is unknown": ("I9", lambda e: e.command("SET", e.keys.prefix + "what:is:this", 1)),
    "a key may expire": ("I9", _run("EXPIRE", ("shard",), 1000)),
    "a record was set aside": ("I13", _put("set_aside", "job q x", "1700000000.0 {}")),
    **{
        f"a record of {kind} cannot be read": ("I13", _spoil_first(kind))
        for kind in ("workspaces", "leases", "jobs:q", "shared_limits")
    },
    "a record of a queue cannot be read": ("I13", _put("shard", "queue:q", "{}")),
    "the keys have another format": ("I13", _change_shard(-8, b"format=3")),
    "the keys have no format": ("I13", _change_shard(-8, b"")),
    "a flow that has failed has no timer": ("I1", _a_ready_flow_is("failed")),
    "a flow that is put off has no timer": ("I1", _a_ready_flow_is("put_off")),
    "a debt has no flow": ("I11", _run("ZADD", ("indebted", "q"), 1.0, "ghost")),
    "a letter has no age": ("I11", _run("DEL", ("dead_letters_by_age", "busy {1}"))),
    "a notice has no letter": ("I11", _run("ZADD", ("unreported", "q"), 1.0, "a x")),
    "a set of ended ids is left": ("I11", _run("SADD", ("ended", "7"), "x")),
    "a cancelled job has no notice": ("I11", _run("DEL", ("unreported", "q2"))),
    "limits of a provider cannot be forgotten": (
        "I11",
        _put("limits", "provider:workspace:x", "concurrency=1"),
    ),
    "a workspace below its reserve does not go first": (
        "I1",
        _run("HSET", ("limits",), f"live:workspace:{encode('busy {1}')}", "reserve=99"),
    ),
    "a workspace goes first without a reserve": (
        "I1",
        _run("ZADD", ("reserved", "q"), 1.0, "000000000000001:ghost"),
    ),
    "a workspace with leases has no record": (
        "I11",
        _run("HDEL", ("workspaces",), encode("busy {1}")),
    ),
    "a dead letter is not listed": ("I11", _run("DEL", ("dead_workspaces",))),
    "a count does not say when it was last raised": ("I11", _put("counts", "a", "3")),
    "an average of a task cannot be read": ("I11", _put("shard", "task:t", "what")),
    "how a queue stands beside other shards cannot be read": (
        "I11",
        _put("shard", "across:q", "7"),
    ),
    "a queue with jobs is marked as unused": ("I11", _serve_queue(1700000000000005, b"/1")),
    "the rebuild does not go on": ("I11", _put("shard", "rebuild", "1 0 0 0")),
    "a queue is overlooked": ("I11", _put("shard", "queues", "other")),
    "the last fence is no number": ("I13", _change_number(3, math.nan)),
    "limits are overlooked": ("I11", _put("shard", "settings", "{}")),
    "the rebuild rests for too long": ("I11", _change_number(7, 9e9)),
}


def _move_for_ever(engine: Engine) -> object:
    """The workspace is between two groups, and nothing goes on with it."""
    workspaces = engine.keys.key("workspaces")
    record = engine.command("HGET", workspaces, "eu")
    moves = record.replace(b" org|", b" org=other/0|")
    assert moves != record
    return engine.command("HSET", workspaces, "eu", moves)


def _shared(engine: Engine, kind: str, key: str) -> str:
    return f"{engine.keys.prefix}{kind}:{key}"


GROUP, TASK = "@org", f"/{TASK_NAME}"


def _wait_for_a_rate(engine: Engine) -> object:
    """Give the task a rate per workspace that no script has heard of, and a start under it."""
    _put("limits", f"live:task:{TASK_NAME}", "workspace_rate=0.01")(engine)
    return engine.command("ZADD", engine.keys.key("task_rates"), 1.7e9 + 90, f"eu:{TASK_NAME}")


SHARED_DAMAGES: dict[str, tuple[str, Damage]] = {
    "a lease does not count for its group": ("I4", _take_one("slots:@org")),
    "a lease does not count for its task": ("I4", _take_one(f"slots:{TASK}")),
    "a lease does not count for its workspace and task": (
        "I4",
        lambda e: e.command("DEL", _shared(e, "slots", f"eu/{TASK_NAME}")),
    ),
    "a task's limit is exceeded": ("I2", _put("limits", f"live:task:{TASK_NAME}", "concurrency=0")),
    "a lease of a limited task is not indexed": ("I4", _put("indexed_tasks", TASK_NAME, "new")),
    "a rate is of no task": ("I11", _run("ZADD", ("task_rates",), 9e9, "ghost")),
    "a workspace is ready that waits for a task's rate": ("I1", _wait_for_a_rate),
    "a closed inner node is ready": ("I1", _put("limits", "live:workspace:org", "concurrency=1")),
    "a task is paused and its inner node is not closed": (
        "I10",
        _put("limits", f"pause:task:{TASK_NAME}", "paused=1"),
    ),
    "a shared limit is closed and not full": ("I10", _put("shared_limits", "@org", "at_limit 0 -")),
    "nodes of a shared limit are never reached": (
        "I10",
        _put("shared_limits", "@org", "- 0 - q@org<"),
    ),
    "an inner node weighs too much": ("I5", _change_node(4, "7000000")),
    "an inner node counts a member that is not there": ("I5", _change_node(5, "9")),
    "an inner node counts a member that is not held back": ("I5", _change_node(6, "9")),
    "an inner node is not in its node": ("I1", _run("DEL", ("ready", "q"))),
    "an inner node is not listed": (
        "I3",
        lambda e: e.command("DEL", _shared(e, "nodes_of_shared_limit", GROUP)),
    ),
    "a workspace is in another group": ("I3", _put("limits", "live:workspace:eu", "parent=other")),
    "a workspace moves between groups and nothing goes on with it": ("I3", _move_for_ever),
    "a lease counts for a group that its workspace has left": (
        "I4",
        lambda e: e.command(
            "SADD",
            _shared(e, "slots", "@left"),
            e.command("HKEYS", e.keys.key("leases"))[0],
        ),
    ),
}
