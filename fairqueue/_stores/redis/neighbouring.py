"""What moves between the Redis store and another system's lists in the same Redis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fairqueue._keys import encode
from fairqueue._stores.redis.operating import Operating
from fairqueue._types import Job
from fairqueue.errors import FairQueueError

PAGE = 50
EACH = 10  # jobs of one workspace in one call


class Neighbouring(Operating):
    """The neighbours' part of the store."""

    def take_over(self, source: str, job: Job, *, kind: str) -> bool:
        """Enqueue a job in place of a message."""
        done = self._call(
            "take_over",
            list=source,
            message=job.payload,
            queue=encode(job.queue),
            id=encode(job.id),
            workspace=encode(job.workspace),
            task=encode(job.task),
            priority=job.priority,
            delay=job.delay_seconds or 0,
            kind=kind,
        )
        if done == -1:
            raise FairQueueError(
                "jobs are being handed over to the other system: nothing is taken over from it"
            )
        return bool(done)

    def hand_over(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move jobs into lists, round after round, until a round finds none."""
        text = " ".join(f"{least} {encode(name)}" for least, name in lists)
        moved = 1
        while moved:
            moved = 0
            for some in self._one_round(encode(queue), text):
                moved += some
                yield some

    def _one_round(self, queue: str, lists: str) -> Iterator[int]:
        cursor = b""
        while cursor != b"0":
            cursor, moved = self._call(
                "hand_over", queue=queue, lists=lists, cursor=cursor or b"0", count=PAGE, each=EACH
            )
            yield int(moved)

    def leave(self, seconds: float) -> None:
        """Let nothing be taken over for so long."""
        self._call("leave", seconds=seconds)

    def taken(self) -> Mapping[str, int]:
        """Count what was taken over."""
        found = self._call("taken")
        return {
            kind.decode(): int(count) for kind, count in zip(found[::2], found[1::2], strict=True)
        }
