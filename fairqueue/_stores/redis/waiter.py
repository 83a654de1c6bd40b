"""Waits for a queue's token, blocking or from an event loop, over a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from fairqueue._stores.engine import Engine
from fairqueue._stores.redis.connections import Wire, connect_soon
from fairqueue._stores.redis.errors import is_withheld, translated_redis_errors
from fairqueue._stores.waiter import SLACK_SECONDS, Waiter
from fairqueue._utils import is_readable

UNBLOCK_SECONDS, AGAIN_SECONDS = 1.0, 0.02
LEAST_SECONDS = 0.002  # BLPOP takes 0 as without end, and Redis 6.2 rounds 1 ms down to that


class RedisWaiter(Waiter):
    """BLPOP over the tokens of some queues; a taken token leads to a claim, or is given back."""

    def __init__(
        self,
        client: redis.Redis,
        wire: Wire,
        tokens: Callable[[], list[str]],
        engine: Engine,
    ) -> None:
        self._client, self._wire = client, wire
        self._engine = engine
        self._tokens = tokens
        self._turn = 0
        self._connection: Any = None
        self._armed = False

    def _connect(self) -> Any:
        if self._connection is None:
            pool = self._client.connection_pool
            connection = pool.connection_class(**pool.connection_kwargs)
            connect_soon(connection) if self._engine.gives_up else connection.connect()
            self._id = _id_of(connection)
            self._connection = connection
        return self._connection

    def arm(self, seconds: float) -> None:
        """Start waiting; the queues take turns in being tried first."""
        if self._armed:
            return
        tokens = self._tokens()
        self._turn = (self._turn + 1) % len(tokens)
        tokens = tokens[self._turn :] + tokens[: self._turn]
        self.answered_by = time.monotonic() + seconds + SLACK_SECONDS
        self._engine.refuse_if_silent()
        with self._dropping():
            connection = self._connect()
            self._armed = True  # before it is sent: an interrupt must not leave a reply unread
            connection.send_command("BLPOP", *tokens, max(LEAST_SECONDS, round(seconds, 3)))

    def fileno(self) -> int:
        """The socket; readable when woken, when time is up, or when the connection broke."""
        return int(self._connect()._sock.fileno())  # noqa: SLF001 - as kombu does

    def collect(self) -> bool:
        """Read an answer that has begun; the rest must come within the socket's time-out."""
        with self._dropping():
            reply = self._connection.read_response()
            self._armed = False
        if reply is not None:
            self.taken = reply[0].decode()
        return reply is not None

    def disarm(self) -> bool:
        """End the wait on the server's side, or else close its connection."""
        if not self._armed:
            return False
        if self._id is None:
            self.close()
            return False
        if self._engine.is_silent:
            self._drop()
            return False
        with self._dropping():
            if not self._end():
                self._drop()  # the link is dead
                self._engine.leave_alone()
                return False
            return self.collect()

    def _end(self) -> bool:
        """End the wait on the server's side; False: its answer has not come in time.

        The server is told repeatedly: the wait itself goes over another connection, and may reach
        it later.
        """
        until = time.monotonic() + UNBLOCK_SECONDS
        while not self._readable(0):
            left = until - time.monotonic()
            try:
                if left <= 0:
                    return False
                self._wire.ask("CLIENT", "UNBLOCK", str(self._id), within=left)
            except redis.TimeoutError:
                return False
            self._readable(AGAIN_SECONDS)
        return True

    def close(self) -> None:
        """End the wait on the server's side, so that no token is lost."""
        if self._armed and self._connection is not None and not self._engine.is_silent:
            self._give_back()
        self._drop()

    def _give_back(self) -> None:
        """Put back a token that came before the end."""
        try:
            is_over = self._readable(0) if self._id is None else self._end()
            answer = self._connection.read_response() if is_over else None
            if answer is not None and not self._client.exists(answer[0]):
                self._client.rpush(answer[0], 1)
        except (redis.RedisError, OSError):
            return  # the server is away: there is no token to give back

    def _readable(self, seconds: float) -> bool:
        return is_readable([self.fileno()], seconds)

    @contextmanager
    def _dropping(self) -> Iterator[None]:
        """Drop a connection that failed, and raise our own error."""
        try:
            with translated_redis_errors(was_let_in=self._wire.was_let_in):
                yield
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        self._armed = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()


def _id_of(connection: Any) -> Any:
    """Return the connection's id, by which its wait can be ended; None if it is withheld.

    Then a token may be lost with the wait, and the next poll finds the work.
    """
    connection.send_command("CLIENT", "ID")
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        if not is_withheld(error):
            raise
        return None
