"""Tells whether a library traces the calls of redis-py's client.

OpenTelemetry, Sentry, Datadog and New Relic put functions of their own in front of the methods of
`redis.Redis`.
"""

from __future__ import annotations

from types import FunctionType

import redis
from redis.commands import core

_OF_CLIENT = vars(redis.client)
_OF_COMMANDS = vars(core)


def is_traced() -> bool:
    """Whether a library has replaced one of redis-py's methods that send a call.

    Asked at each call: a library may begin and end at any time, as after a worker's fork.
    """
    for method, own in (
        (redis.Redis.execute_command, _OF_CLIENT),
        (redis.Redis.fcall, _OF_COMMANDS),
        (redis.Redis.evalsha, _OF_COMMANDS),
    ):
        if type(method) is not FunctionType or method.__globals__ is not own:
            return True
    return False
