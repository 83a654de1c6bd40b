"""Says in our words what Redis refuses, and checks at start what it must be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
import redis.exceptions

from fairqueue.errors import ConfigurationError, StoreUnavailable

OLDEST = (6, 2)

REMEDIES = {
    "OOM": "Redis is out of memory (maxmemory reached): raise maxmemory, or let workers drain it",
    "READONLY": "this Redis is a read-only replica: point the URL at the master",
    "MISCONF": "Redis cannot save to its disk and refuses writes: free the disk, or see its log",
    "NOREPLICAS": "Redis has fewer replicas than min-replicas-to-write: bring them back",
    "LOADING": "Redis is loading its data: it will answer when it is done",
    "BUSY": "a script of another client keeps Redis busy: look at its SLOWLOG",
    "MASTERDOWN": "this replica has lost its master",
    "CLUSTERDOWN": "the Redis Cluster is down",
}


def _told(error: Exception) -> str | None:
    text = str(error)
    for code, remedy in REMEDIES.items():
        if text.startswith((code + " ", "-" + code)) or f"-{code} " in text:
            return remedy
    if isinstance(error, redis.ReadOnlyError):
        return REMEDIES["READONLY"]
    if isinstance(error, redis.BusyLoadingError):
        return REMEDIES["LOADING"]
    if "maxmemory" in text:
        return REMEDIES["OOM"]
    return None


@contextmanager
def guarded() -> Iterator[None]:
    """Turn errors of the client into ours; the original stays as the cause."""
    try:
        yield
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        raise _refused(error) from error
    except (redis.ConnectionError, redis.TimeoutError) as error:
        told = _told(error) or f"Redis cannot be reached ({error}): is it running?"
        raise StoreUnavailable(told) from error
    except redis.ResponseError as error:
        if "user executing the script" in str(error):
            raise _refused(error) from error
        remedy = _told(error)
        if remedy is None:
            raise
        raise StoreUnavailable(remedy) from error


def _refused(error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"Redis refuses this user ({error}): check the URL's user and password, and that its "
        "ACL allows scripts, BLPOP, and in scripts the data commands on the namespace's keys"
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def check_server(client: Any) -> None:
    """Raise ConfigurationError if this server cannot keep the promises."""
    try:
        info = client.info()
    except redis.ResponseError as error:
        if "unknown command" not in str(error):
            raise
        return  # an emulation without INFO has nothing to check
    version, policy = info.get("redis_version", "0.0"), info.get("maxmemory_policy", "noeviction")
    if _version(version) < OLDEST:
        raise ConfigurationError(
            f"this Redis is {version}, too old: fairqueue needs 6.2 or later (or Valkey)"
        )
    if policy != "noeviction":
        raise ConfigurationError(
            f"this Redis has maxmemory-policy {policy!r} and would drop jobs when it is full: "
            "set maxmemory-policy to noeviction"
        )
    if info.get("role") == "slave":
        raise ConfigurationError(REMEDIES["READONLY"])
