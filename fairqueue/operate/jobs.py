"""Cancel, purge and move jobs: ``queue.jobs``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fairqueue._keys import encode_job
from fairqueue._lazy import reports
from fairqueue._settings import Settings
from fairqueue._stores.store import StoreBase
from fairqueue._types import Cancelled, FoundJob, Job, JobState
from fairqueue._validation import (
    check_name,
    check_priority,
    check_text,
    name_or_none,
    new_job_id,
    seconds_of_delay,
)
from fairqueue.errors import ConfigurationError
from fairqueue.operate.progress import Progress, counted_steps, ignore

WHAT_BECAME = {
    Cancelled.REMOVED: "was removed before it started",
    Cancelled.SIGNALLED: "is running; its worker stops it at the next lease renewal",
    Cancelled.NOT_FOUND: "neither waits nor runs: it has ended, is dead, or never existed",
}
"""Of a job that was to be cancelled, in words."""


class Jobs:
    """What operators do to single jobs, and to all that match."""

    def __init__(self, connected: Callable[[], StoreBase], settings: Settings) -> None:
        self._connected, self._settings = connected, settings

    def cancel(
        self, job_id: str, *, workspace: str | None = None, queue: str | None = None
    ) -> Cancelled:
        """Cancel one job: remove it if it waits, signal its worker if it runs.

        The worker learns of it at its next lease renewal (``fairqueue.current().cancelled``).
        However that run ends, the job is neither run again nor kept as a dead letter. Where no
        worker ran it, a worker of its queue tells its framework: in Celery its result becomes
        REVOKED. Without ``workspace`` or ``queue`` all of them are searched, in bounded steps.
        ConfigurationError: the id is used in several.
        """
        job = self._located(job_id, workspace, queue)
        if job is None:
            return Cancelled.NOT_FOUND
        return self._connected().cancel(job.id, workspace=job.workspace, queue=job.queue)

    def _located(self, job_id: str, workspace: str | None, queue: str | None) -> FoundJob | None:
        return locate(
            self._connected(),
            check_text("job id", job_id),
            workspace=name_or_none("workspace", workspace),
            queue=name_or_none("queue", queue),
        )

    def withdraw(
        self, job_id: str, *, queue: str | None = None, workspace: str | None = None
    ) -> Job | None:
        """Remove and return a waiting or scheduled job; None: there is none of this id.

        A running job is left alone. The returned job has neither its delay nor its expiry. A worker
        tells its framework that it was cancelled, and the job is searched for, as with
        :meth:`cancel`.
        """
        job = self._located(job_id, workspace, queue)
        if job is None:
            return None
        return self._connected().withdraw(job.id, workspace=job.workspace, queue=job.queue)

    def payload(self, job_id: str, *, workspace: str, queue: str) -> bytes | None:
        """Return the payload of a job, also of a dead one; None: there is none."""
        home = self._connected().home(check_name("workspace", workspace))
        known_by = encode_job(workspace, check_name("queue", queue), check_text("job id", job_id))
        record = home.engine.command("HGET", home.engine.keys.key("jobs", queue), known_by)
        if record is not None:
            return bytes(record).partition(b"\n")[2]
        letters = home.dead_letters(workspace, job_id=job_id)
        return next((each.job.payload for each in letters if each.job.queue == queue), None)

    def cancel_matching(
        self,
        *,
        workspace: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        progress: Progress = ignore,
    ) -> reports.CancelledAll:
        """Cancel the jobs that match all that is given, in bounded steps; return how many.

        Jobs that are published meanwhile may be left. ``progress`` is called after each step with
        the number of jobs it cancelled. ConfigurationError: nothing is given. Running jobs are
        cancelled first, so that none of them is redelivered behind the purge; then those that were
        started meanwhile.
        """
        given = {"workspace": workspace, "queue": queue, "task": task}
        names = {kind: check_name(kind, name) for kind, name in given.items() if name is not None}
        if not names:
            raise ConfigurationError("name a workspace, a queue or a task whose jobs to cancel")
        store, done = self._connected(), Counter[Cancelled]()

        def cancel_running() -> None:
            for outcome in signal_running(store, names):
                done[outcome] += 1
                progress(int(outcome is not Cancelled.NOT_FOUND))

        cancel_running()
        removed = counted_steps(store.purge(**names, cancelled=True), progress)
        cancel_running()
        removed += done[Cancelled.REMOVED]  # these came back to their queue meanwhile
        return reports.CancelledAll(removed=removed, signalled=done[Cancelled.SIGNALLED])

    def purge(
        self,
        queue: str | None = None,
        *,
        workspace: str | None = None,
        task: str | None = None,
        progress: Progress = ignore,
    ) -> int:
        """Remove waiting and scheduled jobs; return how many. Running jobs go on.

        Removes the jobs that match all of queue, workspace and task that are given, or all jobs.
        It works in steps of bounded length and calls ``progress`` after each with the number of
        jobs it removed.
        """
        given = {"queue": queue, "workspace": workspace, "task": task}
        named = (name_or_none(kind, name) for kind, name in given.items())
        return counted_steps(self._connected().purge(*named), progress)

    def import_message(
        self,
        source: str,
        message: bytes,
        *,
        queue: str,
        workspace: str | None = None,
        task: str = "",
        priority: int = 0,
        delay_seconds: float = 0.0,
        job_id: str | None = None,
    ) -> bool:
        """Replace the next message of another system's list with a job, in one step.

        ``source`` is the list's key in the same Redis; its last element is the next message. It
        must equal ``message``, which becomes the payload. False: it does not, so nothing was done.
        ``source=""`` imports a message that you have taken from its list and keep until this
        returns; with several shards there is no other way. Name a ``job_id`` then: a repeat under
        the same one does nothing while that job lives, and for a minute after it.
        No capacity applies, since the message was accepted elsewhere. ConfigurationError: a bad
        name or number, as for a publish; then the message stays. Raises FairQueueError while
        imports are suspended, see :meth:`suspend_imports`.
        """
        unnamed = workspace is None and self._settings.on_missing_workspace != "default"
        job = Job(
            id=check_text("job id", job_id) if job_id else new_job_id(),
            workspace=check_name("workspace", workspace or self._settings.default_workspace),
            queue=check_name("queue", queue),
            task=check_name("task", task),
            payload=message,
            priority=check_priority(priority),
            delay_seconds=seconds_of_delay(delay_seconds, must_take=True),
        )
        store = self._connected()
        return store.import_message(source, job, without_workspace=unnamed)

    def export_jobs(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move a queue's waiting and scheduled jobs into another system's lists in the same Redis.

        ``lists`` holds (least priority, key) pairs in rising order: a payload is pushed to the
        left of the last list whose least priority the job's reaches. Each item is the number of
        jobs moved in that step; each job moves atomically. Workspaces take turns. Running jobs go
        on. With several shards each has lists of its own, whose keys begin with its
        ``engine.keys.exported()``; ConfigurationError while their number changes.
        """
        return self._connected().export_jobs(check_name("queue", queue), lists)

    def suspend_imports(self, seconds: float) -> None:
        """Refuse imports for this many seconds, while jobs are being exported; 0: allow them."""
        self._connected().suspend_imports(seconds)


def signal_running(store: StoreBase, names: Mapping[str, Any]) -> Iterator[Cancelled]:
    """Cancel each running job that matches and is not cancelled; yield what became of it."""
    for job in store.running(MOST_SIGNALLED, **names).jobs:
        if not job.cancelled:
            yield store.cancel(job.job_id, workspace=job.workspace, queue=job.queue)


MOST_SIGNALLED = 1_000_000
STATES = (JobState.WAITING, JobState.DEAD, JobState.ENDED)


def locate(
    store: StoreBase, job_id: str, *, workspace: str | None, queue: str | None
) -> FoundJob | None:
    """Return the job of this id; None: there is none.

    Where the workspace or the queue is not named, every workspace is asked, page by page. One that
    waits or runs counts before a dead one, and that before one that has ended. ConfigurationError:
    there are several.
    """
    if workspace is not None and queue is not None:
        return FoundJob(workspace, queue, job_id)
    found: dict[JobState, dict[tuple[str, str], FoundJob]] = {state: {} for state in STATES}
    for state, job in store.locate(job_id, workspace=workspace, queue=queue):
        found[state][job.workspace, job.queue] = job
    jobs = next((list(found[state].values()) for state in STATES if found[state]), [])
    if len(jobs) > 1:
        places = ", ".join(f"{job.workspace!r} on {job.queue!r}" for job in jobs[:5])
        raise ConfigurationError(
            f"there are {len(jobs)} jobs with the id {job_id!r} (of {places}): "
            "name the workspace and the queue as well"
        )
    return jobs[0] if jobs else None
