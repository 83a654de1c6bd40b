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


def _none(_number: int, _name: str) -> bool:
    return False


class _Counter:
    """Counts commands. The database holds it, and Lua does: so it must not hold the database."""

    def __init__(self) -> None:
        self.count = 0
        self.fails: Fails = _none

    def counting(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def command(*arguments: Any) -> Any:
            self.count += 1
            if self.fails(self.count, name):
                raise Failure(f"{name} failed as it was told to")
            return run(*arguments)

        return command


class FailingDatabase(Database):
    """Counts its commands, and fails those that it is told to."""

    def __init__(self, clock: ManualClock, *, random: Random | None = None) -> None:
        super().__init__(clock=clock, random=random)
        self._counter = counter = _Counter()
        for name in list(self.commands.keys()):
            self.commands[name] = counter.counting(name.decode(), self.commands[name])

    @property
    def count(self) -> int:
        """How many commands there were since :meth:`deny`."""
        return self._counter.count

    def deny(self, fails: Fails | None) -> None:
        """Fail these commands from now on, numbered from 1; None: no more."""
        self._counter.count, self._counter.fails = 0, fails or _none

    @contextmanager
    def failing(self, fails: Fails) -> Iterator[None]:
        """Fail these commands inside the block; they are numbered from 1."""
        self.deny(fails)
        try:
            yield
        finally:
            self._counter.fails = _none
