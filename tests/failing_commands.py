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


class FailingDatabase(Database):
    """Counts its commands, and fails those that it is told to."""

    def __init__(self, clock: ManualClock, *, random: Random | None = None) -> None:
        super().__init__(clock=clock, random=random)
        self.count = 0
        self.fails: Callable[[int, str], bool] = lambda _n, _name: False
        for name in list(self.commands.keys()):
            self.commands[name] = self._failing(name.decode(), self.commands[name])

    def _failing(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def command(*arguments: Any) -> Any:
            self.count += 1
            if self.fails(self.count, name):
                raise Failure(f"{name} failed as it was told to")
            return run(*arguments)

        return command

    def deny(self, fails: Callable[[int, str], bool] | None) -> None:
        """Fail these commands from now on, numbered from 1; None: no more."""
        self.count, self.fails = 0, fails or (lambda _n, _name: False)

    @contextmanager
    def failing(self, fails: Callable[[int, str], bool]) -> Iterator[None]:
        """Fail these commands inside the block; they are numbered from 1."""
        self.deny(fails)
        try:
            yield
        finally:
            self.fails = lambda _n, _name: False
