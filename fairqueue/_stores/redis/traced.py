"""Sends calls of operations through redis-py's client while a library traces that client's calls.

OpenTelemetry, Sentry, Datadog and New Relic put functions of their own in front of the methods of
`redis.Redis`. The client here has these methods, and borrows its connections.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import redis
from redis.commands import core
from redis.exceptions import ResponseError

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


class TracedClient(redis.Redis):
    """A client for operations, with the methods that tracing libraries replace."""

    def __init__(
        self,
        connections: Any,
        is_answer: Callable[[BaseException], bool],
        read: Callable[[Any], Any],
    ) -> None:
        super().__init__(connection_pool=connections)
        self._connections, self._is_answer, self._read = connections, is_answer, read

    def parse_response(self, connection: Any, *_: Any, **__: Any) -> Any:
        """Read the reply, and note that it came."""
        try:
            reply = self._read(connection)
        except ResponseError as error:
            if self._is_answer(error):
                self._connections.note_answer(connection)
            raise
        self._connections.note_answer(connection)
        return reply
