"""Connections that look for their server whenever they connect."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue._stores.redis.errors import is_from_wrong_server

ASK_SECONDS = 1.0
"""How long one server is waited for that is asked where another one is."""


def asking_options() -> dict[str, Any]:
    """Options of a connection for one question, which the next server is asked otherwise."""
    return {
        "socket_timeout": ASK_SECONDS,
        "socket_connect_timeout": ASK_SECONDS,
        "retry": Retry(NoBackoff(), 0),
    }


class Looking:
    """Put before a kind of redis-py's connections that finds its server in ``connect``.

    redis-py's own go back to the last address, and those that were never connected to localhost.
    """

    _sock: Any

    def doubt(self) -> None:
        """Look again: what was found does not answer, or is not the right server."""
        raise NotImplementedError

    def send_packed_command(self, *args: Any, **options: Any) -> Any:
        """Send it, to the server of now if the connection was closed."""
        if not self._sock:
            self.connect()  # type: ignore[attr-defined]
        return super().send_packed_command(*args, **options)  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Read one; doubt a server that breaks off, or says that it is the wrong one."""
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except redis.RedisError as error:
            if not isinstance(error, redis.ResponseError) or is_from_wrong_server(error):
                self.doubt()
            raise
