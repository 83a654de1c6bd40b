"""Small helpers: import a function by name, name this process, throttle messages and tries."""

from __future__ import annotations

import getpass
import os
import random
import socket
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fairqueue.errors import ConfigurationError


def load_function(
    source: str, *, setting: str, error: type[ConfigurationError] = ConfigurationError
) -> Callable[..., Any]:
    """Import ``package.module:function``; raise ``error``, naming the setting, if that fails."""
    try:
        found = _find(source)
    except (ImportError, AttributeError) as reason:
        raise error(
            f"setting {setting!r}: cannot import {source!r}: {reason}; "
            "expected 'package.module:function'"
        ) from reason
    if not callable(found):
        raise error(f"setting {setting!r}: {source!r} is not callable")
    return found  # type: ignore[no-any-return]


def _find(source: str) -> Any:
    module, _, name = source.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def process_name() -> str:
    """Name this process for an operator: user, host and process id."""
    try:
        user = f"{getpass.getuser()}@"
    except (KeyError, OSError):  # in a container its id may have no name
        user = ""
    return f"{user}{socket.gethostname()}:{os.getpid()}"


class Throttle:
    """Lets one call through per period; the first one immediately."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._passed = float("-inf")

    def passes(self) -> bool:
        """Return True, and start a new period, if the last one is over."""
        now = time.monotonic()
        if now - self._passed < self._seconds:
            return False
        self._passed = now
        return True


class Backoff:
    """How long to wait before a try, after others that failed in a row.

    After the first not at all, since it may have been one lost reply; then ever longer, up to
    about a second. Each wait is a random part of that, so that processes that failed together do
    not try again together.
    """

    SHORTEST_SECONDS = 0.05
    LONGEST_SECONDS = 1.0

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0

    def failed(self) -> None:
        """A try has failed."""
        self._failures += 1
        if self._failures > 1:
            grown = self.SHORTEST_SECONDS * 2.0 ** min(self._failures - 2, 16)
            part = random.uniform(0.75, 1.25)  # noqa: S311 - no secret
            self._until = time.monotonic() + part * min(grown, self.LONGEST_SECONDS)

    def succeeded(self) -> None:
        """A try has succeeded: the next one need not wait."""
        self._failures, self._until = 0, 0.0

    @property
    def seconds_left(self) -> float:
        """How long the next try has to wait; 0: it is due."""
        return max(0.0, self._until - time.monotonic()) if self._until else 0.0
