"""Sends a script's calls to Redis, packed by hand: the client's general way costs more than they.

What does not change from call to call (EVALSHA, the script, its keys) is packed once. The client's
pool, its connections and its retries do the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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


class ScriptCall:
    """One script with its keys on one client; call it with as many values as it takes."""

    def __init__(self, client: Any, text: str, keys: Sequence[str], arguments: int) -> None:
        self._script = client.register_script(text)
        self._client, self._keys = client, keys
        command = ["EVALSHA", self._script.sha, str(len(keys)), *keys]
        self._head = b"*%d\r\n" % (len(command) + arguments) + _packed(map(str.encode, command))
        self._pool: Any = getattr(client, "connection_pool", None)
        self._connected = _connector(client)

    def __call__(self, values: Sequence[Value]) -> Any:
        """Run it; a server that has forgotten the script is told it again."""
        if self._connected is None:
            return self._script(keys=self._keys, args=[_bytes_of(value) for value in values])
        packed = self._head + _packed(map(_bytes_of, values))
        try:
            return self._sent(self._connected, packed)
        except NoScriptError:
            self._client.script_load(self._script.script)
            return self._sent(self._connected, packed)

    def _sent(self, connected: Callable[[], Any], packed: bytes) -> Any:
        connection = connected()

        def exchange() -> Any:
            connection.send_packed_command((packed,))
            return connection.read_response()

        try:
            return connection.retry.call_with_retry(exchange, lambda _: connection.disconnect())
        finally:
            self._pool.release(connection)


def _connector(client: Any) -> Callable[[], Any] | None:
    """How to take a connection out of the client's pool; None: it has its own ways of calling."""
    if not isinstance(client, redis.Redis) or isinstance(client, redis.client.Pipeline):
        return None
    if client.connection is not None:  # one for all calls, behind a lock of the client's
        return None
    take: Callable[..., Any] = client.connection_pool.get_connection
    command = inspect.signature(take).parameters.get("command_name")
    if command is not None and command.default is command.empty:  # before redis-py 5.3
        return partial(take, "EVALSHA")
    return take
