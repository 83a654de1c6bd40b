"""What an operator does to jobs that are in the queue already."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence

from fairqueue._names import check_name, check_text
from fairqueue._store import Store
from fairqueue._types import Cancelled, CancelledAll, DeadLetter, Job, Pause, Why
from fairqueue.errors import ConfigurationError

SLOWEST = 1e-6
"""Replays per second: one in eleven days. Anything slower is a slip, and would never be due."""

Progress = Callable[[int], object]
"""Told of how many more jobs a step of long work has done."""


def _ignore(_: int) -> None:
    """Nobody watches."""


def _counted(steps: Iterator[int], progress: Progress) -> int:
    total = 0
    for done in steps:
        total += done
        progress(done)
    return total


class Operations(ABC):
    """The operators' half of :class:`fairqueue.FairQueue`."""

    @abstractmethod
    def _connected(self) -> Store:
        """The store, once it is ready."""

    def cancel(self, job_id: str, *, queue: str | None = None) -> Cancelled:
        """Cancel one job: gone at once where it waits; where it runs, its worker is told.

        The worker learns it with its next renewal (``fairqueue.current().cancelled``). Cancel
        wins: however that run ends, the job is neither run again nor dead. A job that has ended
        stays as it is. Without ``queue`` all queues are looked at. To find one job among many
        that wait in its lane takes a look at each of them.
        """
        name = None if queue is None else check_name("queue", queue)
        return self._connected().cancel(check_text("job id", job_id), name)

    def withdraw(self, job_id: str, *, queue: str) -> Job | None:
        """Take one job out of where it waits, for good, and return it; what runs is left alone.

        None: it runs, has ended, or never was. Its delay and its expiry are not told.
        """
        return self._connected().withdraw(check_text("job id", job_id), check_name("queue", queue))

    def find(self, text: bytes, *, queue: str, followed_by: Collection[bytes] = ()) -> list[str]:
        """Ids of a queue's jobs, waiting, scheduled or running, whose message holds a text.

        For who knows a job by its framework's id only; ``followed_by`` for who knows several: one
        of them must stand between the text's first place and the next quote. It looks at every
        job of the queue, in steps of bounded length.
        """
        if any(b"\n" in word or b'"' in word for word in followed_by):
            raise ConfigurationError("followed_by takes words without a quote or a line's end")
        steps = self._connected().find(check_name("queue", queue), text, followed_by)
        return list(dict.fromkeys(job_id for some in steps for job_id in some))

    def cancel_workspace(self, workspace: str, *, progress: Progress = _ignore) -> CancelledAll:
        """Cancel everything of one workspace, in steps of bounded length.

        What is published meanwhile may stay. ``progress`` hears after each step how many more
        jobs are cancelled.
        """
        store, name = self._connected(), check_name("workspace", workspace)
        told = _counted(store.cancel_running(name), progress)  # first: what comes back stays away
        gone = _counted(store.purge(None, name), progress)
        told += _counted(store.cancel_running(name), progress)  # what was started meanwhile
        return CancelledAll(gone=gone, told=told)

    def why(
        self, job_id: str | None = None, *, workspace: str | None = None, queue: str | None = None
    ) -> Why:
        """Why a job waits, by its id; or why a workspace does.

        Tells each limit, pause, rate or time that holds it, since when and until when as far as
        that is known, how many are ahead, and in how many seconds it may start. Nothing is
        changed. The cost does not grow with the number of workspaces; approximate: a job behind
        10,000 others of its lane has that many ahead, and a dead one is looked for in the given
        workspace, else in the 1,000 with the oldest dead letters.
        """
        if job_id is None and workspace is None:
            raise ConfigurationError("name a job by its id, or a workspace")
        name = None if workspace is None else check_name("workspace", workspace)
        on = None if queue is None else check_name("queue", queue)
        job_id = None if job_id is None else check_text("job id", job_id)
        return self._connected().why(workspace=name, job_id=job_id, queue=on)

    def purge(
        self,
        queue: str | None = None,
        *,
        workspace: str | None = None,
        task: str | None = None,
        progress: Progress = _ignore,
    ) -> int:
        """Drop what waits or is scheduled; running jobs go on. Return how many.

        Of a queue, a workspace or a task; of several that are named what is of each; with none,
        all. In steps of bounded length: ``progress`` hears after each how many more are gone.
        """
        queue = None if queue is None else check_name("queue", queue)
        workspace = None if workspace is None else check_name("workspace", workspace)
        task = None if task is None else check_name("task", task)
        return _counted(self._connected().purge(queue, workspace, task), progress)

    def pause(
        self, *, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> Pause | None:
        """Start nothing of a workspace, queue or task, or, with none, at all, until resumed.

        Running jobs finish; publishes are let in. It is kept in the store, whatever limits are
        set meanwhile. Returns how it stood before.
        """
        return self._hold(Pause.PAUSED, workspace=workspace, queue=queue, task=task)

    def drain(
        self, *, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> Pause | None:
        """Let in nothing new, and run what waits, until resumed.

        A publish raises CapacityExceeded with the limit 0; what the system itself must publish
        (retries, continuations, replays) is let in. Returns how it stood before.
        """
        return self._hold(Pause.DRAINING, workspace=workspace, queue=queue, task=task)

    def resume(
        self, *, workspace: str | None = None, queue: str | None = None, task: str | None = None
    ) -> Pause | None:
        """End a pause or a drain of exactly this; return which it was, None: neither."""
        return self._hold(None, workspace=workspace, queue=queue, task=task)

    def pauses(self) -> dict[tuple[str, str], Pause]:
        """What is paused or drains, by scope and name.

        Scopes are ``"workspace"``, ``"queue"``, ``"task"`` and ``"total"``.
        """
        return self._connected().pauses()

    def _hold(self, how: Pause | None, **place: str | None) -> Pause | None:
        named = {scope: name for scope, name in place.items() if name is not None}
        if len(named) > 1:
            raise ConfigurationError(f"name one of {', '.join(place)}: they are held apart")
        for scope, name in named.items():
            return self._connected().pause(scope, check_name(scope, name), how)
        return self._connected().pause("total", "", how)

    def dead_letters(self, workspace: str, *, start: int = 0, count: int = 100) -> list[DeadLetter]:
        """A page of a workspace's dead letters, oldest first, from position ``start``."""
        name = check_name("workspace", workspace)
        return self._connected().dead_letters(name, start=start, count=count)

    def dead_letter(self, workspace: str, job_id: str) -> DeadLetter | None:
        """One dead letter; None: there is none of this id."""
        name = check_name("workspace", workspace)
        found = self._connected().dead_letters(name, job_id=check_text("job id", job_id))
        return found[0] if found else None

    def replay(self, workspace: str, job_id: str) -> bool:
        """Publish one dead letter again, in its old workspace and queue, with its old id.

        Its deliveries count from none, and no capacity refuses it. False: there is no such
        letter, or a job of that id lives again.
        """
        name, job = check_name("workspace", workspace), check_text("job id", job_id)
        return _counted(self._connected().replay(name, job_id=job), _ignore) > 0

    def replay_all(
        self,
        workspace: str,
        *,
        per_second: float | None = None,
        progress: Progress = _ignore,
    ) -> int:
        """Publish all dead letters of a workspace again, oldest first; return how many.

        With ``per_second`` they become due at that pace: they are scheduled, and this call does
        not wait for them.
        """
        if per_second is not None and not per_second >= SLOWEST:
            raise ConfigurationError(f"per_second must be at least {SLOWEST}, not {per_second!r}")
        spacing = 1 / per_second if per_second else 0.0
        name = check_name("workspace", workspace)
        return _counted(self._connected().replay(name, spacing_seconds=spacing), progress)

    def purge_dead(
        self, workspace: str, job_id: str | None = None, *, progress: Progress = _ignore
    ) -> int:
        """Drop one dead letter, or all of a workspace, for good; return how many."""
        name = check_name("workspace", workspace)
        job_id = None if job_id is None else check_text("job id", job_id)
        return _counted(self._connected().drop_dead(name, job_id=job_id), progress)

    def take_notices(
        self, queues: Sequence[str], *, n: int = 16, hold_seconds: float = 30.0
    ) -> list[DeadLetter]:
        """Dead jobs of these queues of whose death nobody has been told, for adapters.

        A job that died of lost workers has nobody to run its failure path. Who takes its notice
        runs it and then calls :meth:`drop_notices`; after ``hold_seconds`` without that somebody
        else may take it: so it is told at least once.
        """
        return self._connected().take_notices(queues, n=n, hold_seconds=hold_seconds)

    def drop_notices(self, letters: Sequence[DeadLetter]) -> int:
        """These deaths have been told; return how many were not told before."""
        return self._connected().drop_notices(letters)
