"""Connections that look for their server whenever they connect."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fairqueue._stores.breaker import ASK_SECONDS, CircuitBreaker, breaker_at
from fairqueue._stores.redis.errors import is_about_slot, is_from_wrong_server


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
    host: str
    port: int
    _breaker, _doubts = CircuitBreaker(), 0

    def note_server(self) -> None:
        """Note to which server it connects now."""
        self._breaker = breaker_at(f"{self.host}:{self.port}")
        self._doubts = self._breaker.doubts

    @property
    def is_doubted(self) -> bool:
        """Whether a connection of this process has doubted the server since this one connected."""
        return self._breaker.doubts != self._doubts

    def look_again(self) -> None:
        """Let the next connect look where the server is."""
        raise NotImplementedError

    def doubt(self) -> None:
        """Look again, and let all other connections of this process to this server do so.

        It does not answer, or is not the right one.
        """
        self.look_again()
        if not self.is_doubted:  # else the other connections that are as old know
            self._breaker.doubts += 1

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
            if is_about_slot(error):
                self.look_again()
            elif not isinstance(error, redis.ResponseError) or is_from_wrong_server(error):
                self.doubt()
            raise
