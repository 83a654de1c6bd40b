"""An engine in this process whose commands can be made to fail, one of them or all of a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from fairqueue._stores.memory import Database
from fairqueue._stores.memory.values import CommandError
from fairqueue.testing import ManualClock


class Failure(CommandError):
    """The error that a test has asked for."""


Fails = Callable[[int, str], bool]
"""Whether a command fails, by its number and its name."""


class FailingDatabase(Database):
    """Fails those of its commands that it is told to, and counts them while it is told."""

    def __init__(self, clock: ManualClock, *, random: Random | None = None) -> None:
        super().__init__(clock=clock, random=random)
        self._own = dict(self.commands)
        self._count = [0]

    @property
    def count(self) -> int:
        """How many commands there were since :meth:`deny`."""
        return self._count[0]

    def deny(self, fails: Fails | None) -> None:
        """Fail these commands from now on, numbered from 1; None: no more."""
        self._count = count = [0]
        for name, run in self._own.items():
            self.commands[name] = _counting(count, fails, name.decode(), run) if fails else run

    @contextmanager
    def failing(self, fails: Fails) -> Iterator[None]:
        """Fail these commands inside the block; they are numbered from 1."""
        self.deny(fails)
        try:
            yield
        finally:
            self.deny(None)


def _counting(count: list[int], fails: Fails, name: str, run: Any) -> Callable[..., Any]:
    """Count a command. Lua holds what this returns: so it must not hold the database."""

    def command(*arguments: Any) -> Any:
        count[0] += 1
        if fails(count[0], name):
            raise Failure(f"{name} failed as it was told to")
        return run(*arguments)

    return command
