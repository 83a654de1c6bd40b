"""An engine in this process whose commands can be made to fail, one of them or all of a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from fairqueue._stores.memory import Database
from fairqueue._stores.memory.values import CommandError
from fairqueue.testing import ManualClock


class Failure(CommandError):
    """The error that a test has asked for."""


Fails = Callable[[int, str], bool]
"""Whether a command fails, by its number and its name."""


@dataclass
class _Watch:
    """What the commands of one database share. Lua holds them, so they must not hold it."""

    fails: Fails | None = None
    count: int = 0


class FailingDatabase(Database):
    """Fails those of its commands that it is told to, and counts them while it is told."""

    def __init__(self, clock: ManualClock, *, random: Random | None = None) -> None:
        super().__init__(clock=clock, random=random)
        self._watch = _Watch()
        for name, run in dict(self.commands).items():  # once: Lua confuses commands replaced often
            self.commands[name] = _watched(self._watch, name.decode(), run)

    @property
    def count(self) -> int:
        """How many commands there were since :meth:`deny`."""
        return self._watch.count

    def deny(self, fails: Fails | None) -> None:
        """Fail these commands from now on, numbered from 1; None: no more."""
        self._watch.fails, self._watch.count = fails, 0

    @contextmanager
    def failing(self, fails: Fails) -> Iterator[None]:
        """Fail these commands inside the block; they are numbered from 1."""
        self.deny(fails)
        try:
            yield
        finally:
            self.deny(None)


def _watched(watch: _Watch, name: str, run: Any) -> Callable[..., Any]:
    def command(*arguments: Any) -> Any:
        if watch.fails is not None:
            watch.count += 1
            if watch.fails(watch.count, name):
                raise Failure(f"{name} failed as it was told to")
        return run(*arguments)

    return command
