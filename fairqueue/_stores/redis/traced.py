"""Sends calls of operations through redis-py's client while a library traces that client's calls.

OpenTelemetry, Sentry, Datadog and New Relic put functions of their own in front of the methods of
`redis.Redis`. The client here has these methods, and borrows its connections.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any
from weakref import WeakSet

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


class Loans(redis.ConnectionPool):
    """Stands for a client's pool: lends each connection, and takes it back."""

    def __init__(self, pool: Any, take: Callable[[], Any], give_back: Callable[..., None]) -> None:
        super().__init__(pool.connection_class, **pool.connection_kwargs)
        self._take, self._give_back = take, give_back
        self._answered: WeakSet[Any] = WeakSet()

    def get_connection(self, *_: Any, **__: Any) -> Any:
        return self._take()

    def release(self, connection: Any) -> None:
        """Take it back, and say whether its last call was answered."""
        answered = connection in self._answered
        self._answered.discard(connection)
        self._give_back(connection, is_kept=answered)

    def note_answer(self, connection: Any) -> None:
        """Note that the call over this connection was answered."""
        self._answered.add(connection)


class TracedClient(redis.Redis):
    """A client for operations, with the methods that tracing libraries replace."""

    def __init__(
        self,
        loans: Loans,
        is_answer: Callable[[BaseException], bool],
        read: Callable[[Any], Any],
    ) -> None:
        super().__init__(connection_pool=loans)
        self._loans, self._is_answer, self._read = loans, is_answer, read

    def parse_response(self, connection: Any, *_: Any, **__: Any) -> Any:
        """Read the reply, and note that it came."""
        try:
            reply = self._read(connection)
        except ResponseError as error:
            if self._is_answer(error):
                self._loans.note_answer(connection)
            raise
        self._loans.note_answer(connection)
        return reply
