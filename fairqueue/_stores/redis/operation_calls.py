"""Calls an operation on a Redis server: its function in the library, or else its script.

A server that does not know the function gets the library and is called again, as after
``FUNCTION FLUSH``, on a new node of a Cluster, and with a new release. Without functions (Redis
6.2, or an ACL that forbids them) an operation goes by EVALSHA after SCRIPT LOAD, since newer
servers evict scripts that came by EVAL; or else by EVAL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from fairqueue._stores.library import Library
from fairqueue._stores.redis.connections import Confirmation, Wire, head, packed, read_one
from fairqueue._stores.redis.errors import is_withheld
from fairqueue._stores.redis.traced import is_traced

FUNCTION_UNKNOWN = "Function not found"
LIBRARY_KNOWN = "already exists"
WAYS = 3
"""Tries of a call: as a function, as an unknown script, and again."""


class Delivery:
    """Loads a library on one client's server, and knows whether functions work there."""

    def __init__(self, wire: Wire, library: Library) -> None:
        self.wire, self.library = wire, library
        self.has_functions = True

    def brings_library(self, execute: Callable[..., Any]) -> bool:
        """Load the library; False: functions do not work for this user here."""
        try:
            execute("FUNCTION LOAD", self.library.text)
        except ResponseError as error:
            if is_withheld(error):
                self.has_functions = False
            elif LIBRARY_KNOWN not in str(error):  # another process was first
                raise
        return self.has_functions


class OperationCall:
    """One operation with its keys on one client; callable with its values."""

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
        self._arguments = len(library.arguments_of(operation))
        self._is_sent_whole = False
        self._set_way()

    def _set_way(self) -> None:
        """Pack the constant part of the call.

        A signal handler may raise anywhere in it, as at a soft time limit: then the next call does
        this again, since the way is noted at the end.
        """
        is_function = self._delivery.has_functions
        if is_function:
            self._command = ["FCALL", self._delivery.library.function(self._operation)]
        elif self._is_sent_whole:
            self._command = ["EVAL", self._script]
        else:
            self._command = ["EVALSHA", sha1(self._script.encode()).hexdigest()]  # noqa: S324
        words = [*self._command, str(len(self._keys)), *self._keys]
        self._head = head(words, self._arguments)
        self._is_function = is_function

    @property
    def _script(self) -> str:
        return self._delivery.library.script(self._operation)

    def __call__(self, values: Sequence[bytes], is_there: Callable[[], bool] | None = None) -> Any:
        """Run it; load the operation first if the server does not know it.

        ``is_there`` is asked if there is no answer for a moment; False ends the call.
        """
        if self._confirmation is not None:
            self._confirmation.ensure()
        if self._is_function is not self._delivery.has_functions:
            self._set_way()
        wire = self._delivery.wire
        if is_traced():  # redis-py's own client may send a call twice
            return self._call_client(values)
        for _ in range(WAYS):
            try:
                return wire.exchange(self._pack(values), self._read, is_there=is_there)
            except ResponseError as error:
                if not self._is_brought(error, wire.execute):
                    raise
        return wire.exchange(self._pack(values), self._read, is_there=is_there)

    def _pack(self, values: Sequence[bytes]) -> bytes:
        return self._head + packed(values) + self._tail

    def _is_brought(self, error: ResponseError, execute: Callable[..., Any]) -> bool:
        """Load what the server lacks; False: it refused the call for another reason."""
        if self._is_function:
            if is_withheld(error):
                self._delivery.has_functions = False
            elif FUNCTION_UNKNOWN not in str(error):
                return False
            elif self._delivery.brings_library(execute):
                return True
            self._set_way()
            return True
        if not isinstance(error, NoScriptError):
            return False
        try:
            execute("SCRIPT LOAD", self._script)
        except ResponseError as refusal:
            if not is_withheld(refusal):
                raise
            self._is_sent_whole = True
            self._set_way()
        return True

    def _call_client(self, values: Sequence[bytes]) -> Any:
        client = (self._confirmation or self._delivery.wire).traced_client
        for _ in range(WAYS):
            try:
                return self._sent_by(client, values)
            except ResponseError as error:
                if not self._is_brought(error, client.execute_command):
                    raise
        return self._sent_by(client, values)

    def _sent_by(self, client: Any, values: Sequence[bytes]) -> Any:
        name, what = self._command
        return getattr(client, name.lower())(what, len(self._keys), *self._keys, *values)
