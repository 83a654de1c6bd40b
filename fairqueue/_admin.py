"""Operations: limits, pause and drain, cancel and purge, dead letters, import and export."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace

from fairqueue._dead import spacing_of
from fairqueue._lists import sample_of
from fairqueue._reshard import Reshard
from fairqueue._settings import (
    DefaultSettings,
    QueueSettings,
    TaskSettings,
    TotalSettings,
    WorkspaceSettings,
    live_limits,
)
from fairqueue._stores.limits_text import SourcedLimits
from fairqueue._types import (
    Cancelled,
    CancelledAll,
    DeadLetter,
    Job,
    Limit,
    Limits,
    Pause,
    StoredLimits,
    Why,
    WithoutWorkspace,
)
from fairqueue._unseen_names import hint_of_name, warn_of_unseen
from fairqueue._validation import (
    check_name,
    check_priority,
    check_text,
    new_job_id,
    seconds_of_delay,
)
from fairqueue.errors import ConfigurationError
from fairqueue.lists import Overview

Progress = Callable[[int], object]
"""Called after each step of a long operation, with the number of jobs in that step."""


def _ignore(_: int) -> None:
    """Show no progress."""


def _count(steps: Iterator[int], progress: Progress) -> int:
    total = 0
    for done in steps:
        total += done
        progress(done)
    return total


def _in_force(stored: Sequence[SourcedLimits]) -> dict[str, Limit]:
    """Return each limit from the source with the highest precedence."""
    found: dict[str, Limit] = {}
    for source, limits, stamp in stored:
        values = ((f.name, getattr(limits, f.name)) for f in fields(Limits))
        known = stamp or (None, None)
        found |= {name: Limit(value, source, *known) for name, value in values if value is not None}
    return found


class Admin(Reshard):
    """What operators do to a queue: ``queue.admin``. Every call applies to waiting jobs at once.

    Live limits, set with ``set_…``, are stored in Redis. They override configured limits. A
    raised limit starts waiting jobs; a lowered one stops no running job. Limits that are not named,
    or are None, stay as they are. ConfigurationError: an unknown limit or an impossible value.
    Each ``unset_…`` removes all live limits of its scope, so that configured ones apply again.
    A limit, pause or drain of a name that no job, limit or pause names is stored with a warning.

    Every method raises ConfigurationError for a name or id that is not allowed, and
    StoreUnavailable if the store cannot be reached.
    """

    def note_sample(self, overview: Overview | None = None) -> bool:
        """Add what runs and waits now to the short history, of an hour, that a dashboard shows.

        False: another process did so less than 30 seconds ago. It keeps the workspaces that run or
        wait most; ``overview`` spares reading one.
        """
        return self._connected().note_sample(sample_of(overview or self.overview()))

    def hint(
        self, *, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> str | None:
        """Say so if no job, limit or pause names one of these now, with a name that is similar.

        Also of one that is known, if another differs only in case or surrounding spaces. None: all
        of them are known, and there is no such other.
        """
        given = {"workspace": workspace, "queue": queue, "task": task}
        named = {scope: check_name(scope, name) for scope, name in given.items() if name}
        hints = (hint_of_name(self._connected(), scope, named[scope]) for scope in named)
        return next(filter(None, hints), None)

    def cancel(self, job_id: str, *, queue: str | None = None) -> Cancelled:
        """Cancel one job: remove it if it waits, signal its worker if it runs.

        The worker learns of it at its next lease renewal (``fairqueue.current().cancelled``).
        However that run ends, the job is neither run again nor kept as a dead letter. Where no
        worker ran it, a worker of its queue tells its framework: in Celery its result becomes
        REVOKED. Without ``queue`` all queues are searched.
        """
        name = None if queue is None else check_name("queue", queue)
        return self._connected().cancel(check_text("job id", job_id), name)

    def withdraw(self, job_id: str, *, queue: str) -> Job | None:
        """Remove and return a waiting or scheduled job; None: there is none of this id.

        A running job is left alone. The returned job has neither its delay nor its expiry. A worker
        tells its framework that it was cancelled, as with :meth:`cancel`.
        """
        return self._connected().withdraw(check_text("job id", job_id), check_name("queue", queue))

    def find(self, text: bytes, *, queue: str, followed_by: Collection[bytes] = ()) -> list[str]:
        """Return ids of a queue's waiting, scheduled or running jobs whose payload contains a text.

        This finds a job by its framework's id. To find several at once, pass the ids as
        ``followed_by``: one of them must stand between the first occurrence of the text and the
        next quote. Every job of the queue is examined, in steps of bounded length.
        """
        if any(b"\n" in word or b'"' in word for word in followed_by):
            raise ConfigurationError("followed_by must not contain quotes or line breaks")
        steps = self._connected().find(check_name("queue", queue), text, followed_by)
        return list(dict.fromkeys(job_id for found in steps for job_id in found))

    def cancel_workspace(self, workspace: str, *, progress: Progress = _ignore) -> CancelledAll:
        """Cancel all jobs of a workspace, in steps of bounded length; return how many.

        Jobs that are published meanwhile may be left. ``progress`` is called after each step with
        the number of jobs it cancelled.
        """
        store, name = self._connected(), check_name("workspace", workspace)
        # Running jobs first, so that none of them is redelivered behind the purge; then those that
        # were started meanwhile.
        signalled = _count(store.cancel_running(name), progress)
        removed = _count(store.purge(None, name, cancelled=True), progress)
        signalled += _count(store.cancel_running(name), progress)
        return CancelledAll(removed=removed, signalled=signalled)

    def why(
        self, job_id: str | None = None, *, workspace: str | None = None, queue: str | None = None
    ) -> Why:
        """Explain why a job waits, by its id, or why a workspace's jobs do. Changes nothing.

        The answer names every limit, pause, rate or time that blocks it, since when and until when
        (if known), how many jobs are ahead, and in how many seconds it is expected to start. The
        cost does not grow with the number of workspaces. Two bounds apply: at most 10,000 jobs
        ahead in a lane are counted, and a dead job is searched for in the given workspace, else in
        the 1,000 with the oldest dead letters.
        """
        if job_id is None and workspace is None:
            raise ConfigurationError("why needs a job id or a workspace")
        name = None if workspace is None else check_name("workspace", workspace)
        on = None if queue is None else check_name("queue", queue)
        job_id = None if job_id is None else check_text("job id", job_id)
        found = self._connected().why(workspace=name, job_id=job_id, queue=on)
        if found.workspace != self._settings.default_workspace:
            return found
        return replace(found, without_workspace=self._without_workspace(found))

    def _without_workspace(self, found: Why) -> Mapping[str, WithoutWorkspace]:
        """The counts of the tasks in question, else of all tasks."""
        counts = self._connected().without_workspace()
        tasks = {position.task for position in found.positions} if found.job_id else counts.keys()
        return {task: counts[task] for task in sorted(tasks & counts.keys())}

    def purge(
        self,
        queue: str | None = None,
        *,
        workspace: str | None = None,
        task: str | None = None,
        progress: Progress = _ignore,
    ) -> int:
        """Remove waiting and scheduled jobs; return how many. Running jobs go on.

        Removes the jobs that match all of queue, workspace and task that are given, or all jobs.
        It works in steps of bounded length and calls ``progress`` after each with the number of
        jobs it removed.
        """
        queue = None if queue is None else check_name("queue", queue)
        workspace = None if workspace is None else check_name("workspace", workspace)
        task = None if task is None else check_name("task", task)
        return _count(self._connected().purge(queue, workspace, task), progress)

    def pause(
        self, *, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> Pause | None:
        """Stop starting jobs in this scope (default: all jobs) until :meth:`resume`.

        Running jobs finish; new jobs are still accepted. The pause is stored in Redis and is
        independent of limits. Returns the previous state of the scope.
        """
        return self._set_pause(Pause.PAUSED, workspace=workspace, queue=queue, task=task)

    def drain(
        self, *, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> Pause | None:
        """Accept no new jobs in this scope (default: all jobs) until :meth:`resume`.

        Waiting jobs still run. A publish raises CapacityExceeded with ``limit`` 0; exempt jobs
        (retries, continuations, replays) are accepted. Returns the previous state of the scope.
        """
        return self._set_pause(Pause.DRAINING, workspace=workspace, queue=queue, task=task)

    def resume(
        self, *, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> Pause | None:
        """End the pause or drain of exactly this scope; return which it was, or None."""
        return self._set_pause(None, workspace=workspace, queue=queue, task=task)

    def _set_pause(self, how: Pause | None, **scopes: str | None) -> Pause | None:
        given = {scope: name for scope, name in scopes.items() if name is not None}
        if len(given) > 1:
            raise ConfigurationError(f"give only one of {', '.join(scopes)}")
        for scope, name in given.items():
            if how is not None:
                warn_of_unseen(self._connected(), scope, check_name(scope, name))
            return self._connected().pause(scope, check_name(scope, name), how)
        return self._connected().pause("total", "", how)

    def dead_letters(self, workspace: str, *, start: int = 0, count: int = 100) -> list[DeadLetter]:
        """Return a page of a workspace's dead letters, oldest first, from position ``start``."""
        name = check_name("workspace", workspace)
        return self._connected().dead_letters(name, start=start, count=count)

    def dead_letter(self, workspace: str, job_id: str) -> DeadLetter | None:
        """Return one dead letter; None: there is none of this id."""
        name = check_name("workspace", workspace)
        found = self._connected().dead_letters(name, job_id=check_text("job id", job_id))
        return found[0] if found else None

    def replay(self, workspace: str, job_id: str) -> bool:
        """Re-enqueue one dead letter to its original workspace and queue, with its id.

        Its deliveries are counted from 0 again, and no capacity applies. False: there is no such
        dead letter, or a job with that id exists again. UniqueKeyHeld: another job took over its
        unique key, and holds it.
        """
        name, job = check_name("workspace", workspace), check_text("job id", job_id)
        return _count(self._connected().replay(name, job_id=job), _ignore) > 0

    def replay_all(
        self,
        workspace: str,
        *,
        per_second: float | None = None,
        progress: Progress = _ignore,
    ) -> int:
        """Re-enqueue all dead letters of a workspace, oldest first; return how many.

        With ``per_second`` they are scheduled to become due at that rate; the call itself does not
        wait. One whose unique key another job holds stays dead, which is logged. ``progress`` is
        called as in :meth:`purge`.
        """
        spacing = spacing_of(per_second)
        name = check_name("workspace", workspace)
        return _count(self._connected().replay(name, spacing_seconds=spacing), progress)

    def purge_dead(
        self, workspace: str, job_id: str | None = None, *, progress: Progress = _ignore
    ) -> int:
        """Delete one dead letter, or all of a workspace; return how many."""
        name = check_name("workspace", workspace)
        job_id = None if job_id is None else check_text("job id", job_id)
        return _count(self._connected().purge_dead(name, job_id=job_id), progress)

    def take_failure_notices(
        self, queues: Sequence[str], *, n: int = 16, hold_seconds: float = 30.0
    ) -> list[DeadLetter]:
        """Take up to ``n`` notices of failed jobs of these queues (for adapters).

        There is a notice for each job that died, or was cancelled, without a worker that could
        report it. The caller runs the framework's failure handling and then calls
        :meth:`drop_failure_notices`. If it
        does not, the notice becomes available again after ``hold_seconds``, so every failure is
        reported at least once.
        """
        return self._connected().take_failure_notices(queues, n=n, hold_seconds=hold_seconds)

    def drop_failure_notices(self, letters: Sequence[DeadLetter]) -> int:
        """Mark these failures as reported; return how many were not reported before."""
        return self._connected().drop_failure_notices(letters)

    def set_limits(self, workspace: str, **limits: float | str | None) -> None:
        """Set live limits of one workspace: the fields of :class:`~fairqueue.Limits` by name.

        For example ``set_limits("acme", concurrency=2)``. ConfigurationError also if its reserve
        would exceed its concurrency.
        """
        self._set_limits("workspace", workspace, live_limits(limits, WorkspaceSettings))

    def _set_limits(self, scope: str, name: str, wanted: Limits) -> None:
        store, checked = self._connected(), check_name(scope, name)
        warn_of_unseen(store, scope, checked)
        store.set_limits(scope, checked, wanted)

    def unset_limits(self, workspace: str) -> None:
        """Remove the live limits of one workspace."""
        self._connected().set_limits("workspace", check_name("workspace", workspace), None)

    def set_task_limits(self, task: str, **limits: float | str | None) -> None:
        """Set live limits of one task.

        These are ``concurrency``, ``rate`` and ``burst`` of all workspaces together, and
        ``workspace_concurrency``, ``workspace_rate`` and ``workspace_burst`` of each.
        They apply to all its jobs, also to those that wait or run already.
        """
        self._set_limits("task", task, live_limits(limits, TaskSettings))

    def unset_task_limits(self, task: str) -> None:
        """Remove the live limits of one task."""
        self._connected().set_limits("task", check_name("task", task), None)

    def set_queue_limits(self, queue: str, **limits: float | str | None) -> None:
        """Set live ``concurrency`` and ``capacity`` of one queue for all workspaces together."""
        self._set_limits("queue", queue, live_limits(limits, QueueSettings))

    def unset_queue_limits(self, queue: str) -> None:
        """Remove the live limits of one queue."""
        self._connected().set_limits("queue", check_name("queue", queue), None)

    def set_default_limits(self, **limits: float | str | None) -> None:
        """Set live ``concurrency``, ``capacity``, ``rate``, ``burst``, ``requests`` of workspaces.

        Those that a workspace has itself override them, each by itself.
        """
        self._connected().set_limits("default", "", live_limits(limits, DefaultSettings))

    def unset_default_limits(self) -> None:
        """Remove the live default limits."""
        self._connected().set_limits("default", "", None)

    def set_total_limits(self, **limits: float | str | None) -> None:
        """Set live ``concurrency``, ``capacity`` and ``requests`` of everything together."""
        self._connected().set_limits("total", "", live_limits(limits, TotalSettings))

    def unset_total_limits(self) -> None:
        """Remove the live limits of all jobs together."""
        self._connected().set_limits("total", "", None)

    def unset_configured_limits(self) -> None:
        """Remove all limits that processes have configured, and a limit provider's answers.

        Live limits stay. A worker that boots and names a limit stores its own again.
        """
        self._connected().configure(StoredLimits(), authoritative=True)

    def limits(self, workspace: str) -> dict[str, Limit]:
        """Return the limits of one workspace that are in force, by name, each with its source."""
        name = check_name("workspace", workspace)
        return _in_force(self._connected().get_limits("workspace", name))

    def task_limits(self, task: str) -> dict[str, Limit]:
        """Return the limits of one task that are in force."""
        return _in_force(self._connected().get_limits("task", check_name("task", task)))

    def queue_limits(self, queue: str) -> dict[str, Limit]:
        """Return the limits of one queue that are in force."""
        return _in_force(self._connected().get_limits("queue", check_name("queue", queue)))

    def default_limits(self) -> dict[str, Limit]:
        """Return the limits in force for each workspace without its own."""
        return _in_force(self._connected().get_limits("default", ""))

    def total_limits(self) -> dict[str, Limit]:
        """Return the limits in force for all jobs together."""
        return _in_force(self._connected().get_limits("total", ""))

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
        kind: str = "message",
        job_id: str | None = None,
    ) -> bool:
        """Replace the next message of another system's list with a job, in one step.

        ``source`` is the list's key in the same Redis; its last element is the next message. It
        must equal ``message``, which becomes the payload. False: it does not, so nothing was done.
        ``source=""`` imports a message that you have taken from its list and keep until this
        returns; with several shards there is no other way. Name a ``job_id`` then: a repeat under
        the same one does nothing while that job lives, and for a minute after it.
        No capacity applies, since the message was accepted elsewhere. ConfigurationError: a bad
        name or number, as for a publish; then the message stays. ``kind`` is counted, see
        :meth:`imported`. Raises FairQueueError while imports are suspended, see
        :meth:`suspend_imports`.
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
        return store.import_message(source, job, kind=kind, without_workspace=unnamed)

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

    def imported(self) -> Mapping[str, int]:
        """Return how many messages were ever imported, by kind."""
        return self._connected().imported()
