"""What operators ask of the memory store: each is one step under its lock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager

from fairqueue._store import Store
from fairqueue._stores.memory import giving, graves, purging
from fairqueue._stores.memory.changing import change_task
from fairqueue._stores.memory.limits import by_source
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import State
from fairqueue._stores.memory.sweep import start_drain
from fairqueue._stores.memory.wake import touch_all
from fairqueue._stores.memory.why import why
from fairqueue._types import Cancelled, DeadLetter, Job, Limits, Pause, Why


def _hold(s: State, place: tuple[str, str], how: Pause | None) -> Pause | None:
    """Hold a place in another way; return how it stood."""
    before = s.pauses.pop(place, None)
    if how is None:
        s.held_since.pop(place, None)
        return before
    s.pauses[place] = how
    if how is not before:
        s.held_since[place] = s.now
    return before


class Operating(Store):
    """The operators' half of the store."""

    @abstractmethod
    def _step(self) -> AbstractContextManager[State]:
        """One atomic step."""

    def get_limits(self, scope: str, name: str) -> list[tuple[str, Limits]]:
        """Look at what is stored."""
        with self._step() as s:
            return by_source(s, scope, name)

    def give_limits(
        self, workspace: str, limits: Limits | None, *, age_seconds: float = 0.0
    ) -> bool:
        """Keep what a provider says."""
        with self._step() as s:
            return giving.give(s, workspace, limits, age_seconds)

    def to_ask(self, *, n: int, older_seconds: float, forget_seconds: float) -> list[str]:
        """Take who is due."""
        with self._step() as s:
            return giving.to_ask(s, n, older_seconds, forget_seconds)

    def ask_again(self, workspace: str) -> bool:
        """Make one due."""
        with self._step() as s:
            return giving.ask_again(s, workspace)

    def why(self, *, workspace: str | None, job_id: str | None, queue: str | None) -> Why:
        """Look why something waits."""
        with self._step() as s:
            return why(s, workspace, job_id, queue)

    def purge(
        self, queue: str | None = None, workspace: str | None = None, task: str | None = None
    ) -> Iterator[int]:
        """Drop what waits."""
        with self._step() as s:
            dropped = purging.drop_waiting(s, queue, workspace, task)
        yield dropped

    def cancel(self, job_id: str, queue: str | None = None) -> Cancelled:
        """Cancel one job."""
        with self._step() as s:
            return purging.cancel_one(s, job_id, queue)

    def withdraw(self, job_id: str, queue: str) -> Job | None:
        """Take one job out of where it waits."""
        with self._step() as s:
            return purging.withdraw(s, job_id, queue)

    def find(self, queue: str, text: bytes, words: Collection[bytes] = ()) -> Iterator[list[str]]:
        """Look for a text."""
        with self._step() as s:
            found = s.jobs.get(queue, {}).values()
            ids = [r.job.id for r in found if purging.holds(r.job.payload, text, words)]
        yield ids

    def cancel_running(self, workspace: str) -> Iterator[int]:
        """Cancel what runs."""
        with self._step() as s:
            told = purging.cancel_running(s, workspace)
        yield told

    def dead_letters(
        self, workspace: str, *, job_id: str | None = None, start: int = 0, count: int = 100
    ) -> list[DeadLetter]:
        """Look at a page of them."""
        with self._step() as s:
            graves.fade(s, [workspace])
            found = graves.chosen(s, workspace, job_id)
            page = found if job_id is not None else found[start : start + count]
            return [graves.letter_of(dead) for dead in page]

    def replay(
        self, workspace: str, *, job_id: str | None = None, spacing_seconds: float = 0.0
    ) -> Iterator[int]:
        """Publish them again."""
        with self._step() as s:
            replayed = graves.replay(s, workspace, job_id, spacing_seconds)
        yield replayed

    def drop_dead(self, workspace: str, *, job_id: str | None = None) -> Iterator[int]:
        """Drop them."""
        with self._step() as s:
            dropped = graves.drop(s, workspace, job_id)
        yield dropped

    def take_notices(
        self, queues: Sequence[str], *, n: int, hold_seconds: float
    ) -> list[DeadLetter]:
        """Take some for a while."""
        with self._step() as s:
            return graves.take_notices(s, queues, n, hold_seconds)

    def drop_notices(self, letters: Sequence[DeadLetter]) -> int:
        """They have been told."""
        with self._step() as s:
            return graves.drop_notices(s, letters)

    def pause(self, scope: str, name: str, how: Pause | None) -> Pause | None:
        """Pause, drain or resume."""
        with self._step() as s:
            before = _hold(s, (scope, name), how)
            if scope == "workspace":
                settle(s, s.workspace(name))
            elif scope == "task":
                change_task(s, name)
                start_drain(s)
            elif scope == "queue":
                s.touched.add(name)
            else:
                touch_all(s)
            return before

    def pauses(self) -> dict[tuple[str, str], Pause]:
        """Look at what is held."""
        with self._step() as s:
            return dict(s.pauses)
