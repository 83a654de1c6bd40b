"""Small helpers: import a function by name, name this process, throttle a repeated message."""

from __future__ import annotations

import getpass
import os
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from fairqueue.errors import ConfigurationError

with suppress(ImportError):  # not on Windows
    import pwd  # noqa: F401 - for getpass, see process_name


class ThisProcess:
    """Its id, looked up once: a fork of it has another."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.pid = os.getpid()


this_process = ThisProcess()


def is_readable(descriptors: Iterable[int], seconds: float) -> bool:
    """Return whether one of these can be read, within this many seconds.

    ``select`` refuses descriptors above 1,023; eventlet and Windows have nothing else.
    """
    if not hasattr(select, "poll"):
        return bool(select.select(list(descriptors), [], [], seconds)[0])
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


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


@contextmanager
def needs_extra(what: str, extra: str, error: type[Exception] | None = None) -> Iterator[None]:
    """Name the extra of fairqueue that has what the block cannot import; None: the same error."""
    try:
        yield
    except ImportError as problem:
        told = f"{what} cannot import what it needs: {problem}"  # whose text names the file
        if isinstance(problem, ModuleNotFoundError):
            name = problem.name or problem
            problem.msg = told = (
                f"{what} needs the package {name}: pip install 'fairqueue[{extra}]'"
            )
        if error is None:
            raise
        raise error(told) from None


def process_name() -> str:
    """Name this process for an operator: user, host and process id.

    It imports nothing: with gevent or eventlet, a greenlet and a native thread that import the same
    module at the same time may wait for ever.
    """
    try:
        user = f"{getpass.getuser()}@"
    except (KeyError, OSError):  # in a container its id may have no name
        user = ""
    return f"{user}{socket.gethostname()}:{os.getpid()}"


class Throttle:
    """Lets one call through per period; the first one immediately.

    By default the period after which a process repeats a message in its log.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._passed = float("-inf")

    def passes(self) -> bool:
        """Return True, and start a new period, if the last one is over."""
        now = time.monotonic()
        if now - self._passed < self._seconds:
            return False
        self._passed = now
        return True
