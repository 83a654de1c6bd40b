"""Imports messages from another system's lists, and exports jobs to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fairqueue._keys import encode
from fairqueue._stores import replies
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.operators import OperatorStore
from fairqueue._types import Job
from fairqueue.errors import FairQueueError

IMPORTS_SUSPENDED, IMPORT_MOVES = -1, -2
EXPORT_PAGE = 50
EXPORT_EACH = 10  # jobs of one workspace in one call


class HandoverStore(OperatorStore):
    """What a migration asks of a store."""

    def import_message(
        self,
        source: str,
        job: Job,
        *,
        kind: str,
        without_workspace: bool = False,
        shards: str = "",
    ) -> bool:
        """Replace the next message of another system's list with a job, in one step.

        See :meth:`fairqueue.operate.Jobs.import_message`. Raises FairQueueError while imports are
        suspended; WorkspaceMoves, as :meth:`publish` does.
        """
        done = self._call(
            "import_message",
            list=source,
            message=job.payload,
            job=replies.job_text(job),
            delay=job.delay_seconds or 0,
            kind=kind,
            unnamed=int(without_workspace),
            shards=shards,
        )
        if done == IMPORT_MOVES:
            raise WorkspaceMoves(job.workspace)
        if done == IMPORTS_SUSPENDED:
            raise FairQueueError(
                "imports are suspended while jobs are exported to the other system: "
                "import again when the export has ended, or call suspend_imports(0)"
            )
        return bool(done)

    def export_jobs(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move a queue's waiting and scheduled jobs into other lists; items as in purge."""
        text = " ".join(f"{least} {encode(name)}" for least, name in lists)
        moved = 1
        while moved:
            moved = 0
            for some in self._export_pages(encode(queue), text, b"0"):
                moved += some
                yield some
        yield from self._export_pages(encode(queue), text, b"jobs:0")

    def _export_pages(self, queue: str, lists: str, cursor: bytes) -> Iterator[int]:
        named = {"queue": queue, "lists": lists}
        how = {"count": EXPORT_PAGE, "each": EXPORT_EACH}
        for (moved,) in self._steps("export_jobs", cursor, **named, **how):
            yield int(moved)

    def suspend_imports(self, seconds: float) -> None:
        """Refuse imports for this many seconds, while jobs are being exported; 0: allow them."""
        self._call("suspend_imports", seconds=seconds)

    def imported(self) -> Mapping[str, int]:
        """Return how many messages were ever imported, by kind."""
        found = self._call("imported")
        return {
            kind.decode(): int(count) for kind, count in zip(found[::2], found[1::2], strict=True)
        }
