"""Asks a server, before anything is done, which commands of the scripts its ACL forbids.

An ACL that lacks one command would stop scripts in the middle. Redis 7.0 and Valkey answer by
``ACL DRYRUN``, without running anything; older ones, and a user who may not ask, are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis
from redis.utils import str_if_bytes

BEHIND_THE_KEY = {
    0: "DEL EXISTS GET HGETALL HKEYS HLEN HRANDFIELD LLEN LPOP PERSIST RPOP SCARD SMEMBERS "
    "UNLINK ZCARD",
    1: "HDEL HEXISTS HGET HMGET HSCAN HSTRLEN LINDEX LPOS LPUSH RPUSH RPUSHX SADD SET SISMEMBER "
    "SREM SSCAN EXPIRE ZMSCORE ZRANK ZREM ZSCAN ZSCORE BLPOP",
    2: "HINCRBY HSET HSETNX LRANGE ZADD ZCOUNT ZINCRBY ZRANGE ZRANGEBYSCORE",
}
"""Commands by the least number of arguments after the key."""
FUNCTIONS = {"FCALL", "FUNCTION|LOAD"}
SCRIPTS = {"EVALSHA", "EVAL"}
HIDDEN = "not found"
"""Answers for a command that rename-command has hidden."""


def calls(key: str) -> Iterator[tuple[str, ...]]:
    """Yield a call of each command that fairqueue runs, on this key."""
    yield from (("FCALL", "", "1", key), ("FUNCTION", "LOAD", ""))
    yield from (("EVALSHA", "0", "1", key), ("EVAL", "", "1", key))
    yield ("TIME",)
    for behind, names in BEHIND_THE_KEY.items():
        yield from ((name, key, *["0"] * behind) for name in names.split())


def missing_permissions(client: Any, key: str, *, waits: bool = False) -> str | None:
    """Return a text that names all commands that the ACL forbids on this key, and the remedy.

    None: no command is missing. Functions or scripts suffice. ``waits``: those for replicas are
    needed, too.
    """
    asked = [*calls(key), *([("WAIT", "0", "1"), ("PEXPIRE", key, "1")] if waits else [])]
    try:
        user = client.execute_command("ACL", "WHOAMI")
        denied = set(_denied(client, user, asked))
    except redis.ResponseError:  # it does not know the command, or this user may not ask
        return None
    denied -= FUNCTIONS if denied & FUNCTIONS else SCRIPTS
    if not denied:
        return None
    name = str_if_bytes(user)
    names = sorted(denied)
    rules = " ".join(f"+{command.lower()}" for command in names)
    return (
        f"Redis does not let user {name!r} run {', '.join(names)} on keys like {key!r}: check "
        f"that its ACL allows these commands (ACL SETUSER {name} {rules}) on these keys"
    )


def _denied(client: Any, user: Any, asked: list[tuple[str, ...]]) -> Iterator[str]:
    pipeline = client.pipeline(transaction=False)
    for call in asked:
        pipeline.execute_command("ACL", "DRYRUN", user, *call)
    replies = pipeline.execute(raise_on_error=False)
    errors = [reply for reply in replies if isinstance(reply, redis.ResponseError)]
    for error in errors:  # its frames hold it, and so all that the callers have at hand
        error.__traceback__ = None
    if any(HIDDEN not in str(error) for error in errors):  # it does not know how, or may not say
        return
    for call, reply in zip(asked, replies, strict=True):
        if str_if_bytes(reply) != "OK":
            yield "|".join(call[:2]) if call[0] == "FUNCTION" else call[0]
