"""Calls an operation on a Redis server: its function in the library, or else its script.

A server that does not know the function gets the library and is called again, as after
``FUNCTION FLUSH``, on a new node of a Cluster, and with a new release. Without functions (Redis
6.2, or an ACL that forbids them), and while a full server has no room for the library, an operation
goes by EVALSHA, or by EVAL if the server does not know the script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError, ResponseError

from fairqueue._stores.library import Library
from fairqueue._stores.redis.connections import Confirmation, Wire, head, packed, read_one
from fairqueue._stores.redis.errors import is_full, is_withheld
from fairqueue._stores.redis.traced import is_traced

FUNCTION_UNKNOWN = "Function not found"
LIBRARY_KNOWN = "already exists"
FULL_SECONDS = 1.0
"""How long a full server is not sent the library again: it is 300 kB long."""
WAYS = 3
"""Tries of a call: as a function, as an unknown script, and again."""


class Delivery:
    """Loads a library on one client's server, and knows whether functions work there."""

    def __init__(self, wire: Wire, library: Library) -> None:
        self.wire, self.library = wire, library
        self.has_functions = True
        self._full_until = float("-inf")

    def brings_library(self) -> bool:
        """Load the library; False: this user may not, or there is no memory for it now."""
        if time.monotonic() < self._full_until:
            return False
        load, text = "FUNCTION LOAD", self.library.text
        try:
            if is_traced():
                self.wire.traced("execute_command", load, text)
            else:
                self.wire.exchange(head([*load.split(), text], 0))
        except ResponseError as error:
            if is_full(error):
                self._full_until = time.monotonic() + FULL_SECONDS
                return False
            if is_withheld(error):
                self.has_functions = False
            elif LIBRARY_KNOWN not in str(error):  # another process was first
                raise
        return self.has_functions


class _Way(NamedTuple):
    """How an operation is sent: by which command, whose beginning is packed."""

    command: list[str]
    head: bytes
    is_function: bool


class OperationCall:
    """One operation with its keys on one client; callable with its values, also by threads."""

    def __init__(
        self,
        delivery: Delivery,
        operation: str,
        keys: Sequence[str],
        confirmation: Confirmation | None = None,
    ) -> None:
        library = delivery.library
        self._delivery, self._operation, self._keys = delivery, operation, keys
        self._confirmation = confirmation if library.writes(operation) else None
        self._tail = self._confirmation.packed if self._confirmation else b""
        self._read = self._confirmation.read if self._confirmation else read_one
        self._wait = self._confirmation.wait if self._confirmation else None
        self._arguments = len(library.arguments_of(operation))
        self._way = self._way_by(is_function=delivery.has_functions)

    def _way_by(self, *, is_function: bool, whole: bool = False) -> _Way:
        """Pack the constant part of the call; ``whole``: with the script."""
        if is_function:
            command = ["FCALL", self._delivery.library.function(self._operation)]
        elif whole:
            command = ["EVAL", self._script]
        else:
            command = ["EVALSHA", sha1(self._script.encode()).hexdigest()]  # noqa: S324
        words = [*command, str(len(self._keys)), *self._keys]
        return _Way(command, head(words, self._arguments), is_function)

    @property
    def _script(self) -> str:
        return self._delivery.library.script(self._operation)

    def __call__(self, values: Sequence[bytes], is_there: Callable[[], bool] | None = None) -> Any:
        """Run it; load the operation first if the server does not know it.

        ``is_there`` is asked if there is no answer for a moment; False ends the call.
        """
        if self._confirmation is not None:
            self._confirmation.ensure()
        if self._way.is_function is not self._delivery.has_functions:
            self._way = self._way_by(is_function=self._delivery.has_functions)
        way = self._way
        for _ in range(WAYS):
            try:
                return self._send(way, values, is_there)
            except ResponseError as error:
                way = self._other_way(error, way)
        return self._send(way, values, is_there)

    def _send(self, way: _Way, values: Sequence[bytes], is_there: Callable[[], bool] | None) -> Any:
        wire = self._delivery.wire
        if not is_traced():
            call = way.head + packed(values) + self._tail
            return wire.exchange(call, self._read, is_there=is_there)
        name, what = way.command  # redis-py's own client may send a call twice
        given = what, len(self._keys), *self._keys, *values
        return wire.traced(name.lower(), *given, then=self._wait)

    def _other_way(self, error: ResponseError, way: _Way) -> _Way:
        """Load what the server lacks; raise the error if it refused the call for another reason."""
        if way.is_function:
            if is_withheld(error):
                self._delivery.has_functions = False
            elif FUNCTION_UNKNOWN not in str(error):
                raise error
            elif self._delivery.brings_library():
                return way
        elif self._delivery.has_functions and is_withheld(error):
            raise ResponseError("OOM no memory for the library") from error
        elif not isinstance(error, NoScriptError):
            raise error
        return self._way_by(is_function=False, whole=not way.is_function)
