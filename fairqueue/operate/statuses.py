"""The status of one job: ``queue.job`` and ``queue.watch``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from fairqueue._lazy import explained
from fairqueue._stores.later import fleet
from fairqueue._stores.store import StoreBase
from fairqueue._types import JobState
from fairqueue._validation import check_name, check_text
from fairqueue.errors import StoreUnavailable

FLEET_SECONDS = 5.0
"""How long one look at the workers serves for other jobs, too."""


class JobWatch:
    """Looks again and again what has become of a job."""

    def __init__(self, look: Callable[[], explained.JobStatus | None]) -> None:
        self._look = look
        self.last: explained.JobStatus | None = None
        self.is_over = False

    def news(self) -> explained.JobStatus | None:
        """Return its status if that has changed; None: it has not, or the store does not answer."""
        try:
            found = self._look()
        except StoreUnavailable:
            return None
        if found is None and self.last is not None:
            found = explained.JobStatus(self.last.job_id, self.last.workspace, JobState.ENDED)
        is_new, self.last = found != self.last, found
        self.is_over = found is None or found.state in {JobState.DEAD, JobState.ENDED}
        return found if is_new else None


class Statuses:
    """What becomes of single jobs. Its two methods are those of a :class:`fairqueue.FairQueue`."""

    def __init__(self, connected: Callable[[], StoreBase]) -> None:
        self._connected = connected
        self._seen: tuple[fleet.Fleet, float] | None = None

    def job(self, job_id: str, *, workspace: str) -> explained.JobStatus | None:
        """Return the status of a job of this workspace, by the store's id or its framework's.

        A job of another workspace and one that is not known give the same None: so the workspace of
        your user is the access check. It costs one call to one shard. A job that has ended is known
        for one to two minutes; its outcome and result are those of the framework's result backend.
        """
        found = self._connected().why(
            workspace=check_name("workspace", workspace),
            job_id=check_text("job id", job_id),
            queue=None,
            fleet=self._recent_fleet,
        )
        return found.job

    def watch(
        self, job_id: str, *, workspace: str, every_seconds: float = 1.0
    ) -> Iterator[explained.JobStatus]:
        """Yield the status of a job now and whenever it changes, until it has ended or is dead.

        It looks every second, and goes on while the store is away. Of a job that is not known it
        yields nothing.
        """
        watch = JobWatch(partial(self.job, job_id, workspace=workspace))
        while not watch.is_over:
            status = watch.news()
            if status is not None:
                yield status
            if not watch.is_over:
                time.sleep(every_seconds)

    def _recent_fleet(self) -> fleet.Fleet:
        now = time.monotonic()
        if self._seen is None or now >= self._seen[1]:
            self._seen = self._connected().fleet(), now + FLEET_SECONDS
        return self._seen[0]
