"""Checks a server at start, and says which of its settings may lose jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from typing import Any

import redis

from fairqueue._stores.engine import Level, Remark
from fairqueue._stores.redis.errors import REMEDIES, is_withheld
from fairqueue._utils import Throttle
from fairqueue.errors import ConfigurationError, StoreUnavailable

log = logging.getLogger("fairqueue.redis")

OLDEST = (6, 2)
SAFE = "noeviction"
EVICTS_WHAT_EXPIRES = "volatile-"
"""Prefix of policies that evict only keys with a time to live; no job has one."""
WARN_EVERY_SECONDS = 600.0


def spares_jobs(policy: str) -> bool:
    """Whether Redis keeps all jobs when it is full."""
    return policy == SAFE or policy.startswith(EVICTS_WHAT_EXPIRES)


def danger_of(policy: str, *, confirms: bool = False) -> Remark | None:
    """Return the danger of a maxmemory-policy; ``confirms``: replicas confirm writes.

    A producer or worker that starts is refused where it is a problem.
    """
    if policy == SAFE:
        return None
    if not spares_jobs(policy):
        return Remark(
            Level.PROBLEM,
            "eviction",
            f"this Redis has maxmemory-policy {policy!r} and would drop jobs when it is full: "
            "set maxmemory-policy to noeviction",
        )
    if confirms:
        return Remark(
            Level.PROBLEM,
            "eviction",
            f"this Redis has maxmemory-policy {policy!r} and would drop what min_replicas needs "
            "when it is full: set maxmemory-policy to noeviction",
        )
    return Remark(
        Level.WARNING,
        "eviction",
        f"this Redis has maxmemory-policy {policy!r}: "
        "when it is full it keeps all jobs, but drops results of Celery, and replies that make a "
        "repeated call harmless; raise maxmemory in time, or set maxmemory-policy to noeviction",
    )


def check_server(client: Any, *, confirms: bool = False) -> Iterator[Remark]:
    """Raise ConfigurationError if the scripts cannot run on this server; yield its dangers.

    StoreUnavailable for a replica: after a failover the address may lead to one for a while.
    """
    try:
        info = client.info()
    except redis.ResponseError as error:
        if not is_withheld(error):
            raise
        return  # nothing can be checked
    version = info.get("redis_version", "0.0")
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise ConfigurationError(
            f"this Redis is {version}, too old: fairqueue needs 6.2 or later (or Valkey)"
        )
    if info.get("role") == "slave":
        raise StoreUnavailable(REMEDIES["READONLY"])
    danger = danger_of(info.get("maxmemory_policy", SAFE), confirms=confirms)
    if danger is not None:
        yield danger


def warn(text: str) -> None:
    """Log a danger, at most every ten minutes in each process."""
    if _throttle(text).passes():
        log.warning("%s", text)


@cache
def _throttle(_text: str) -> Throttle:
    return Throttle(WARN_EVERY_SECONDS)
