"""Wake-ups: one token per queue at most, handed to the waiter that has waited longest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Sleeper(Protocol):
    """Who waits for a token of some queues."""

    @property
    def queues(self) -> Iterable[str]:
        """The queues, in the order in which they are looked at."""

    def wake(self, queue: str) -> None:
        """Take the token of this queue."""


class Tokens:
    """The tokens that lie there, and who waits for one."""

    def __init__(self) -> None:
        self.lying: set[str] = set()
        self._waiting: list[Sleeper] = []

    def put(self, queue: str) -> None:
        """Leave a token, if there is none."""
        self.lying.add(queue)

    def drop(self, queue: str) -> None:
        """Take a token away: there is nothing to claim."""
        self.lying.discard(queue)

    def hand_out(self) -> None:
        """Give each token that lies there to the first who waits for it."""
        for sleeper in list(self._waiting):
            self._serve(sleeper)

    def wait(self, sleeper: Sleeper) -> None:
        """Take a token that lies there at once, else wait for one."""
        self._waiting.append(sleeper)
        self._serve(sleeper)

    def leave(self, sleeper: Sleeper) -> None:
        """Stop waiting."""
        if sleeper in self._waiting:
            self._waiting.remove(sleeper)

    def _serve(self, sleeper: Sleeper) -> None:
        queue = next((queue for queue in sleeper.queues if queue in self.lying), None)
        if queue is not None:
            self.lying.discard(queue)
            self._waiting.remove(sleeper)
            sleeper.wake(queue)
