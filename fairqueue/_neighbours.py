"""What moves between a queue and another system's lists in the same Redis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from fairqueue._names import check_name, new_job_id
from fairqueue._settings import Settings
from fairqueue._store import Store
from fairqueue._types import Job


class Neighbours(ABC):
    """The part of :class:`fairqueue.FairQueue` for who moves in, and for who moves out."""

    settings: Settings

    @abstractmethod
    def _connected(self) -> Store:
        """The store, once it is ready."""

    def take_over(
        self,
        source: str,
        message: bytes,
        *,
        queue: str,
        workspace: str | None = None,
        task: str = "",
        priority: int = 0,
        delay_seconds: float = 0.0,
        kind: str = "message",
    ) -> bool:
        """Put a job in the place of the next (the last) message of a list, in one step.

        ``source`` is the list's key as it stands in the Redis of this queue; ``message`` becomes
        the payload. False: it is not the next one any more. No capacity refuses it, since it was
        accepted elsewhere. ``kind`` is counted, see :meth:`taken`. Raises FairQueueError while
        jobs are being handed over, see :meth:`leave`.
        """
        job = Job(
            id=new_job_id(),
            workspace=check_name("workspace", workspace or self.settings.default_workspace),
            queue=check_name("queue", queue),
            task=check_name("task", task),
            payload=message,
            priority=priority,
            delay_seconds=max(0.0, delay_seconds),
        )
        return self._connected().take_over(source, job, kind=kind)

    def hand_over(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move what waits or is scheduled on a queue into lists; each item: how many more.

        ``lists``: (least priority, key), the least first; a payload is pushed to the left of the
        last list whose least priority the job reaches. Each job moves in one step. Running jobs
        go on. Workspaces take turns.
        """
        return self._connected().hand_over(check_name("queue", queue), lists)

    def leave(self, seconds: float) -> None:
        """Let nobody take over for so long, since jobs are being handed over; 0 ends that."""
        self._connected().leave(seconds)

    def taken(self) -> Mapping[str, int]:
        """How many messages were ever taken over, by kind."""
        return self._connected().taken()
