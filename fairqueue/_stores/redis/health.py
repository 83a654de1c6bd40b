"""Remarks about a server for operators: durability, memory, clients, clock, latency."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import redis

from fairqueue._lazy import rows
from fairqueue._stores.engine import Level, Remark
from fairqueue._stores.redis.connections import Replicas
from fairqueue._stores.redis.dangers import SAFE, danger_of, spares_jobs
from fairqueue._stores.redis.errors import is_from_wrong_server, remedy_of
from fairqueue.plain import counted

PINGS = 20
SLOW_SECONDS = 0.01
CLOCK_SECONDS = 1.0
SILENT_SECONDS = 3.0
"""A replica reports each second; one that was silent for longer does not confirm in time."""
FULL, ALMOST_FULL = 0.95, 0.8
FREE = "see whose jobs fill it (fairqueue stats --top 5), purge or drain those, or raise it"

Info = Mapping[str, Any]


def remarks(client: Any, replicas: Replicas = Replicas()) -> Iterator[Remark]:  # noqa: B008
    """Yield remarks about the server, and about what it refuses to tell."""
    try:
        info: Info = client.info()
    except redis.ResponseError as error:
        yield Remark(Level.WARNING, "server", f"INFO is refused, so little can be checked: {error}")
        info = {}
    else:
        yield Remark(Level.INFO, "server", _name(info))
        yield from (*_persistence(info), *_memory(info), *_clients(info), *_eviction(info))
        yield from _replicas(info, replicas)
    yield from (*_clock(client), *_latency(client))


def refused_writes(client: Any, no_key: str) -> Iterator[Remark]:
    """Say why the server refuses writes; ``no_key``: the name of a key that never exists."""
    try:
        client.unlink(no_key)
    except redis.ResponseError as error:
        if is_from_wrong_server(error):
            raise
        if remedy := remedy_of(error):
            yield Remark(Level.PROBLEM, "writes", remedy)


def memory(info: Info) -> rows.Memory | None:
    """Return the server's memory; None: INFO does not have it."""
    if "used_memory" not in info:
        return None
    return rows.Memory(int(info["used_memory"]), int(info.get("maxmemory", 0)) or None)


def durability(info: Info) -> rows.Durability | None:
    """Return the server's durability; None: INFO does not have it."""
    policy = info.get("maxmemory_policy")
    if policy is None:
        return None
    appends = bool(info.get("aof_enabled"))
    return rows.Durability(policy, evicts_jobs=not spares_jobs(policy), appends=appends)


def read_info(client: Any, *sections: str) -> Info:
    """Return what INFO says, or these sections of it; empty if it is refused."""
    try:
        found: Info = client.info(*sections)
    except redis.ResponseError as error:
        if is_from_wrong_server(error):
            raise
        return {}
    return found


def _name(info: Info) -> str:
    valkey = info.get("valkey_version")
    name = f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'unknown')}"
    return f"{name}, up {int(info.get('uptime_in_seconds', 0)):,} s"


def _persistence(info: Info) -> Iterator[Remark]:
    about = "persistence"
    if "loading" in info and int(info["loading"]):
        yield Remark(Level.PROBLEM, about, "it still loads its data")
    if not int(info.get("aof_enabled", 0)):
        text = "appendonly is off: a crash of Redis loses jobs; set appendonly to yes"
        yield Remark(Level.WARNING, about, text)
    failed = {
        "rdb_last_bgsave_status": "the last snapshot (BGSAVE) failed",
        "aof_last_bgrewrite_status": "the last rewrite of the append-only file failed",
        "aof_last_write_status": "the last write to the append-only file failed",
    }
    for field, text in failed.items():
        if info.get(field, "ok") != "ok":
            yield Remark(Level.PROBLEM, about, f"{text}: free its disk, and see its log")


def _memory(info: Info) -> Iterator[Remark]:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    whole = most or int(info.get("total_system_memory", 0))
    if not whole:
        return
    of = "maxmemory" if most else "the machine's memory; maxmemory is not set"
    text = f"{used / 2**20:,.0f} MiB used, {used / whole:.0%} of {of}"
    share = used / whole
    level = Level.WARNING if share >= ALMOST_FULL else Level.INFO
    if share >= FULL:
        refuses = "refuses" if share >= 1 else "will refuse"
        level, text = Level.PROBLEM, f"{text}: it {refuses} publishes; {FREE}"
    yield Remark(level, "memory", text)


def _clients(info: Info) -> Iterator[Remark]:
    now, most = int(info.get("connected_clients", 0)), int(info.get("maxclients", 0))
    if most and now >= most * ALMOST_FULL:
        text = f"open: {now:,} of {counted(most, 'connection')}; raise maxclients"
        yield Remark(Level.WARNING, "clients", text)
    if refused := int(info.get("rejected_connections", 0)):
        text = f"refused since its start, because of maxclients: {counted(refused, 'connection')}"
        yield Remark(Level.WARNING, "clients", text)


def _eviction(info: Info) -> Iterator[Remark]:
    policy = str(info.get("maxmemory_policy", SAFE))
    danger = danger_of(policy)
    level = danger.level if danger else Level.PROBLEM
    if danger:
        yield danger
    if evicted := int(info.get("evicted_keys", 0)):
        what = "results may be missing" if level is Level.WARNING else "jobs may be lost"
        text = f"evicted since its start: {counted(evicted, 'key')}; {what}"
        yield Remark(level, "eviction", text)


def _replicas(info: Info, wanted: Replicas) -> Iterator[Remark]:
    """Say whether enough replicas can confirm a write."""
    if not wanted.least or "connected_slaves" not in info:
        return
    connected = int(info["connected_slaves"])
    told = [info.get(f"slave{n}", {}) for n in range(connected)]
    longest = max(SILENT_SECONDS, wanted.seconds)
    ready = sum(one.get("state") == "online" and int(one["lag"]) <= longest for one in told)
    text = f"in step: {ready:,} of {counted(connected, 'connected replica')}"
    level = Level.INFO
    if ready < wanted.least:
        level = Level.PROBLEM
        text += (
            f"; min_replicas is {wanted.least}, so publishes and claims are refused: bring the "
            "replicas back, or lower min_replicas"
        )
    yield Remark(level, "replicas", text)


def _clock(client: Any) -> Iterator[Remark]:
    before = time.time()
    seconds, micros = client.time()
    behind = (before + time.time()) / 2 - (seconds + micros / 1e6)
    if abs(behind) > CLOCK_SECONDS:
        how = "behind" if behind > 0 else "ahead of"
        text = (
            f"Redis's clock is {abs(behind):,.1f} s {how} that of this machine: times here are "
            "Redis's, and a delay that a framework computes is off by as much"
        )
        yield Remark(Level.WARNING, "clock", text)


def _latency(client: Any) -> Iterator[Remark]:
    times = []
    for _ in range(PINGS):
        start = time.perf_counter()
        client.time()  # a server that cannot save refuses PING
        times.append(time.perf_counter() - start)
    middle, worst = sorted(times)[len(times) // 2] * 1e3, max(times) * 1e3
    level = Level.WARNING if middle > SLOW_SECONDS * 1e3 else Level.INFO
    text = f"a round trip takes {middle:.1f} ms, {worst:.1f} ms at most of {PINGS}"
    yield Remark(level, "latency", text)
