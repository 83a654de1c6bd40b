"""What moves between the memory store and lists beside it, as in Redis another system has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fairqueue._stores.memory.operating import Operating
from fairqueue._stores.memory.publishing import enter
from fairqueue._stores.memory.purging import take_waiting
from fairqueue._stores.memory.settle import settle
from fairqueue._types import Job
from fairqueue.errors import FairQueueError


class Neighbouring(Operating):
    """The neighbours' part of the store."""

    def take_over(self, source: str, job: Job, *, kind: str) -> bool:
        """Enqueue a job in place of a message."""
        with self._step() as s:
            if s.leaving_until > s.now:
                raise FairQueueError(
                    "jobs are being handed over to the other system: nothing is taken over from it"
                )
            messages = s.lists.get(source, [])
            if not messages or messages[-1] != job.payload:
                return False
            messages.pop()
            s.task_number(job.task)
            enter(s, s.workspace(job.workspace), job)
            s.taken[kind] = s.taken.get(kind, 0) + 1
            return True

    def hand_over(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move jobs into lists, all at once."""
        moved = 0
        with self._step() as s:
            for name in sorted(s.workspaces):
                ws = s.workspaces[name]
                for record in take_waiting(s, ws, queue):
                    place = [to for least, to in lists if record.job.priority >= least][-1]
                    s.lists.setdefault(place, []).insert(0, record.job.payload)
                    moved += 1
                settle(s, ws)
        yield moved

    def leave(self, seconds: float) -> None:
        """Let nothing be taken over for so long."""
        with self._step() as s:
            s.leaving_until = s.now + seconds

    def taken(self) -> Mapping[str, int]:
        """Count what was taken over."""
        with self._step() as s:
            return dict(s.taken)
