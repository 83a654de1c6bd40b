"""What this process knows of each server; all its connections to that server share it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from fairqueue._threads import native_event, start_native

ASK_SECONDS = 1.0
"""How long a server is waited for that is asked whether it answers, or where another one is."""
PATIENCE_SECONDS = 0.7
"""How long a call to one of several servers waits for its answer before a probe is sent, and how
long that one waits."""
PAUSE_SECONDS = 0.5
"""Between two questions to a server that is silent."""


class Server:
    """One server: how often it was doubted, and whether it is silent."""

    def __init__(self) -> None:
        self.doubts = 0
        """A connection from before the last doubt may lead to a primary that has been deposed."""
        self._silent_in = 0

    @property
    def is_silent(self) -> bool:
        """Whether a probe asks it now: until it has answered, no call goes there.

        A forked child has no probe, and finds out by itself.
        """
        return self._silent_in == os.getpid()

    def probe(self, answers: Callable[[], bool]) -> None:
        """Ask whether it answers, from a native thread, until it does."""
        if self.is_silent:
            return
        self._silent_in = os.getpid()
        try:
            start_native(partial(self._ask, answers), name="fairqueue-probe")
        except RuntimeError:  # no more threads: calls wait for their time-outs
            self.answered()

    def answered(self) -> None:
        """It is not silent any more."""
        self._silent_in = 0

    def _ask(self, answers: Callable[[], bool]) -> None:
        pause = native_event()
        try:
            while not answers():
                pause.wait(PAUSE_SECONDS)
        finally:
            self.answered()


_known: dict[str, Server] = {}


def server_at(address: str) -> Server:
    """Return what is known of the server at an address, as an engine names it."""
    return _known.setdefault(address, Server())


def server_of(connection: Any) -> Server:
    """Return what is known of the server to which a connection leads over TCP."""
    return server_at(f"{connection.host}:{connection.port}")
