"""Sends a script's calls to Redis with little ado: the client's general way costs more than they.

What does not change from call to call (EVALSHA, the script, its keys) is packed once. Connections
are made as the client makes them and repeat a call as it does; they wait here for the next call,
since the client's pool counts, times and announces each time that it lends one.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import redis
from redis.exceptions import NoScriptError

Value = str | bytes | int | float


def _bytes_of(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    return (repr(value) if isinstance(value, float) else str(value)).encode()


def _packed(values: Iterable[bytes]) -> bytes:
    return b"".join([b"$%d\r\n%b\r\n" % (len(value), value) for value in values])


class Wire:
    """The connections of one client's calls: as many as were ever busy at once.

    Safe to share between threads and over fork: a child makes its own.
    """

    def __init__(self, client: Any) -> None:
        self._pool = client.connection_pool
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: deque[Any] = deque()

    def exchange(self, packed: bytes) -> Any:
        """Send a packed command and return its reply, with the client's own retries."""
        connection = self._take()

        def send_and_read() -> Any:
            connection.send_packed_command((packed,))
            return connection.read_response()

        try:
            return connection.retry.call_with_retry(
                send_and_read, lambda _: connection.disconnect()
            )
        finally:
            self._idle.append(connection)

    def _take(self) -> Any:
        if self._pid != os.getpid():
            self._begin()
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._pool.connection_class(**self._pool.connection_kwargs)
        if _has_input(connection):  # nothing was asked, so it is broken or closed: connect anew
            connection.disconnect()
        return connection

    def close(self) -> None:
        """Close what is idle; the wire may be used again."""
        while self._idle:
            self._idle.pop().disconnect()


def _has_input(connection: Any) -> bool:
    opened = connection._sock  # noqa: SLF001 - can_read() asks it in four system calls
    if opened is None:
        return False
    if not isinstance(opened, socket.socket) or not hasattr(select, "poll"):
        return bool(connection.can_read())
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return bool(poll.poll(0))


def wire_of(client: Any) -> Wire | None:
    """A wire beside this client; None if it has its own ways of calling, as a pipeline has."""
    if not isinstance(client, redis.Redis) or isinstance(client, redis.client.Pipeline):
        return None
    if client.connection is not None:  # one for all calls, behind a lock of the client's
        return None
    return Wire(client)


class ScriptCall:
    """One script with its keys on one client; call it with as many values as it takes."""

    def __init__(
        self, client: Any, wire: Wire | None, text: str, keys: Sequence[str], arguments: int
    ) -> None:
        self._script = client.register_script(text)
        self._client, self._wire, self._keys = client, wire, keys
        command = ["EVALSHA", self._script.sha, str(len(keys)), *keys]
        self._head = b"*%d\r\n" % (len(command) + arguments) + _packed(map(str.encode, command))

    def __call__(self, values: Sequence[Value]) -> Any:
        """Run it; a server that has forgotten the script is told it again."""
        given = [_bytes_of(value) for value in values]
        if self._wire is None:
            return self._script(keys=self._keys, args=given)
        packed = self._head + _packed(given)
        try:
            return self._wire.exchange(packed)
        except NoScriptError:
            self._client.script_load(self._script.script)
            return self._wire.exchange(packed)
