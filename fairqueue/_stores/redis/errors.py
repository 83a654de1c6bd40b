"""Explains why Redis refuses a call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import redis
import redis.exceptions
from redis.sentinel import MasterNotFoundError

from fairqueue.errors import ConfigurationError, StoreUnavailable

SCRIPT_DENIED = ("user executing the script", "ACL failure in script")
"""Texts of errors when the ACL forbids a script's command: Redis 7.0; Redis 7.2 and Valkey."""
NO_DATABASE = ("DB index is out of range", "SELECT is not allowed in cluster mode")
"""Texts of errors when the server has no database of this number."""

REMEDIES = {
    "OOM": "Redis is out of memory (maxmemory reached): raise maxmemory, or let workers drain it",
    "READONLY": "this Redis is a read-only replica: point the URL at the primary",
    "MISCONF": "Redis cannot save to its disk and refuses writes: free the disk, or see its log",
    "NOREPLICAS": "Redis has fewer replicas than min-replicas-to-write: bring them back",
    "LOADING": "Redis is loading its data: it will answer when it is done",
    "BUSY": "a script of another client keeps Redis busy: look at its SLOWLOG",
    "MASTERDOWN": "this Redis is a replica that has lost its primary: point the URL at the primary",
    "CLUSTERDOWN": "the Redis Cluster is down",
    "MOVED": "this server is a node of a Redis Cluster, and another one has the slot: the URL of a "
    "Cluster is redis+cluster://…",
    "SLOT": "a slot of the Redis Cluster has just moved to another node: try again in a moment",
    "ASK": "a slot of the Redis Cluster is on its way to another node: it answers when it is there",
    "TRYAGAIN": "a slot of the Redis Cluster is on its way to another node: it answers when it is "
    "there",
    "UNBLOCKED": "Redis has ended this wait, as it does when it becomes a replica",
}

WRONG_SERVER = frozenset(
    {
        "READONLY",
        "MASTERDOWN",
        "LOADING",
        "UNBLOCKED",
        "CLUSTERDOWN",
        "MOVED",
        "SLOT",
        "ASK",
        "TRYAGAIN",
    }
)
"""Answers of a server that is not, or not yet, the primary: its address may lead elsewhere now."""


class TooFewReplicas(redis.ResponseError):
    """Too few replicas confirmed a write, or are known to be there before it was sent."""


class SlotMoved(redis.ResponseError):
    """MOVED from a node that was just looked up by its slot."""


_CODES = {  # the client leaves these out of the text; a subclass before its base
    redis.ReadOnlyError: "READONLY",
    redis.BusyLoadingError: "LOADING",
    redis.exceptions.MasterDownError: "MASTERDOWN",
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.MovedError: "MOVED",
    SlotMoved: "SLOT",
    redis.exceptions.AskError: "ASK",
    redis.exceptions.TryAgainError: "TRYAGAIN",
}


def _code(error: Exception) -> str | None:
    """Return the code of a refusal that has a remedy; Redis 6.2 quotes it from inside a script."""
    of_kind = (code for kind, code in _CODES.items() if isinstance(error, kind))
    text = str(error)
    in_text = (
        code
        for code in REMEDIES
        if text.startswith((code + " ", "-" + code)) or f"-{code} " in text
    )
    code = next(of_kind, None) or next(in_text, None)
    return "OOM" if code is None and "maxmemory" in text else code


def is_full(error: Exception) -> bool:
    """Whether the server has no memory for it."""
    return _code(error) == "OOM"


def is_from_wrong_server(error: Exception) -> bool:
    """Whether an error says that another server may have taken over."""
    return _code(error) in WRONG_SERVER


def is_about_slot(error: Exception) -> bool:
    """Whether a node of a Cluster refuses one slot: its others may be well."""
    return _code(error) in {"MOVED", "SLOT", "ASK", "TRYAGAIN"}


def is_moved(error: Exception) -> bool:
    """Whether a node of a Cluster says that another has the slot, in any version of redis-py."""
    return _code(error) in {"MOVED", "SLOT"}


def remedy_of(error: Exception) -> str | None:
    """Return the remedy for a refusal; None: not known."""
    return REMEDIES.get(_code(error) or "")


@contextmanager
def translated_redis_errors(*, was_let_in: bool = False) -> Iterator[None]:
    """Translate errors of the client into ours, with the original as the cause."""
    try:
        yield
    except redis.RedisError as error:
        raise_told(error, was_let_in=was_let_in)


def raise_told(error: redis.RedisError, *, was_let_in: bool = False) -> NoReturn:
    """Raise the translation of a client's error, or the error itself.

    ``was_let_in``: the server has accepted this login before. So a refusal of it is an outage, as
    while a password changes: to a worker anything else is the end.
    """
    if isinstance(error, redis.AuthenticationError) and was_let_in:
        raise _unavailable(str(_refused(error)), error) from error
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        raise _refused(error) from error
    if isinstance(error, redis.ConnectionError | redis.TimeoutError):
        raise _unavailable(remedy_of(error) or _unreached(error), error) from error
    is_answer = isinstance(error, redis.ResponseError)
    if is_answer and any(text in str(error) for text in SCRIPT_DENIED):
        raise _refused(error) from error
    if is_answer and str(error).startswith(NO_DATABASE):
        raise ConfigurationError(
            f"this Redis does not have the URL's database ({error}): name another, such as /0"
        ) from error
    if isinstance(error, TooFewReplicas):
        raise StoreUnavailable(str(error)) from error
    remedy = remedy_of(error) if is_answer else None
    if remedy is None:
        raise error
    raise _unavailable(remedy, error) from error


def _unavailable(text: str, error: redis.RedisError) -> StoreUnavailable:
    """Whether the call may have taken effect is known only of those that went over a wire."""
    found = StoreUnavailable(text)
    found.may_be_stored = getattr(error, "owes_reply", True)
    return found


def _unreached(error: Exception) -> str:
    if isinstance(error, MasterNotFoundError):
        return str(error)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        asked = "is its certificate for this host, and by an authority of ssl_ca_certs?"
        return f"Redis cannot be reached ({error}): {asked}"
    return f"Redis cannot be reached ({error}): is it running?"


def _refused(error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"Redis refuses this user ({error}): check the URL's user and password, and that its "
        "ACL allows scripts, BLPOP, and in scripts the data commands on the namespace's keys"
    )


def is_withheld(error: redis.ResponseError) -> bool:
    """Whether the command is withheld: hidden by the server, or forbidden by the ACL."""
    return isinstance(error, redis.exceptions.NoPermissionError) or "unknown command" in str(error)
