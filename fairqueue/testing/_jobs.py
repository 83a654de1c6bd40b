"""The jobs of an app in a test: list and run them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fairqueue import FairQueue, Lease
from fairqueue.rows import WaitingJob
from fairqueue.testing._clock import ManualClock

RUN_SECONDS = 1.0
"""Least worker-seconds of a run in the fair order: measured time would differ each time."""

MOST_RUNS = 10_000
"""Ends a test whose tasks enqueue each other for ever."""

MOST_LISTED = 20
"""Lines about jobs in a failed assertion."""

_MISSING = object()

Seconds = Callable[[], float]
"""Returns the worker-seconds of the run that has just ended."""


@dataclass(frozen=True, slots=True)
class EnqueuedJob:
    """A waiting or scheduled job."""

    task: str
    workspace: str
    queue: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    job_id: str
    due_in: float
    """Seconds until it is due, by the test's clock; 0: it is due."""


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one run of a job."""

    task: str
    workspace: str
    queue: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outcome: Literal["succeeded", "retried", "failed", "rejected"]
    """``"rejected"``: it ended by Celery's Reject or Ignore, or Dramatiq's SkipMessage."""
    result: Any = field(default=None, repr=False)
    """What a Celery task returned."""
    error: BaseException | None = None
    """What it raised, also if it is retried."""


class Jobs(ABC):
    """The jobs of one app, in memory for one test. The fixture ``fairqueue_jobs`` makes it."""

    def __init__(self, queue: FairQueue, clock: ManualClock) -> None:
        self.queue = queue
        """The app's queue: to set limits, pause, claim and so on."""
        self.clock = clock
        """The time of this queue. Nothing else moves it but :meth:`run_until_idle`."""

    # What is enqueued

    def enqueued(
        self,
        task: Any = None,
        *,
        workspace: str | None = None,
        queue: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> list[EnqueuedJob]:
        """Return the jobs that wait or are scheduled, and match all that is given.

        ``task`` is a task, an actor, or a name. ``args`` are all positional arguments; ``kwargs``
        are some of the keyword arguments.
        """
        name = None if task is None else self._name(task)
        return [
            job
            for job in self._enqueued()
            if name in {None, job.task}
            and workspace in {None, job.workspace}
            and queue in {None, job.queue}
            and (args is None or tuple(args) == job.args)
            and all(job.kwargs.get(key, _MISSING) == value for key, value in (kwargs or {}).items())
        ]

    def assert_enqueued(
        self,
        task: Any = None,
        *,
        workspace: str | None = None,
        queue: str | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        count: int | None = None,
    ) -> list[EnqueuedJob]:
        """Fail unless ``count`` jobs match, by default at least one; return those that do.

        Arguments are those of :meth:`enqueued`. The failure lists what is enqueued instead.
        """
        __tracebackhide__ = True
        found = self.enqueued(task, workspace=workspace, queue=queue, args=args, kwargs=kwargs)
        if len(found) == count or (count is None and found):
            return found
        asked = {"workspace": workspace, "queue": queue, "args": args, "kwargs": kwargs}
        wanted = "" if task is None else f" of {self._name(task)}"
        wanted += "".join(
            f", {name} {value!r}" for name, value in asked.items() if value is not None
        )
        expected = "at least one" if count is None else str(count)
        raise AssertionError(
            f"expected {expected} {_jobs(count)}{wanted} to be enqueued, found {len(found)}\n"
            + "\n".join(self._listed())
        )

    def _listed(self) -> Iterator[str]:
        jobs = self._enqueued()
        if not jobs:
            yield "nothing is enqueued"
            return
        yield f"{len(jobs)} {_jobs(len(jobs))} enqueued in all:"
        lines = Counter(map(_line, jobs))
        for line, times in list(lines.items())[:MOST_LISTED]:
            yield f"  {times} × {line}"
        if len(lines) > MOST_LISTED:
            yield f"  and {len(lines) - MOST_LISTED} other kinds"

    def _enqueued(self) -> list[EnqueuedJob]:
        return sorted(map(self._read, self._waiting()), key=lambda job: job.due_in)

    def _waiting(self) -> Iterator[WaitingJob]:
        page = self.queue.views.waiting(n=1000)
        yield from page.jobs
        while page.cursor:
            page = self.queue.views.waiting(n=1000, cursor=page.cursor)
            yield from page.jobs

    def _read(self, job: WaitingJob) -> EnqueuedJob:
        payload = self.queue.jobs.payload(job.job_id, workspace=job.workspace, queue=job.queue)
        args, kwargs = self._arguments(payload or b"")
        due_in = 0.0 if job.due is None else max(0.0, job.due - self.clock())
        return EnqueuedJob(
            job.task, job.workspace, job.queue, args, kwargs, job.job_id, round(due_in, 3)
        )

    # A worker

    def run_until_idle(self, *, within_seconds: float = 0.0, propagate: bool = True) -> list[Run]:
        """Run jobs in this thread, in the fair order, until none may start; return their runs.

        Limits, rates and pauses hold. What is due later stays scheduled, unless it is due
        ``within_seconds``: then the clock moves on to it. With ``propagate`` the error of a job
        that fails for good is raised; retries go on.

        Each run counts as one second in the fair order, so that the order is the same in each
        test run. A task may move the clock to take longer.
        """
        runs, until = list[Run](), self.clock() + within_seconds
        while len(runs) < MOST_RUNS:
            claimed = self.queue.claim(self._queues(), 1) if self._queues() else None
            if claimed is not None and claimed.leases:
                runs.append(self._run(claimed.leases[0], propagate=propagate))
            elif not self._move_on(until, 1.0 if claimed is None else claimed.wait_seconds):
                return runs
        raise AssertionError(
            f"{MOST_RUNS} jobs have run and there are more: does a task enqueue itself? "
            f"The last one was of {runs[-1].task}, workspace {runs[-1].workspace!r}"
        )

    def _queues(self) -> list[str]:
        return [row.queue for row in self.queue.views.queues()]

    def _run(self, lease: Lease, *, propagate: bool) -> Run:
        begun = self.clock()
        run = self._execute(lease, lambda: max(RUN_SECONDS, self.clock() - begun))
        if propagate and run.error is not None and run.outcome == "failed":
            raise run.error
        return run

    def _move_on(self, until: float, look_after: float) -> bool:
        """Move the clock to when a job may start; False: none may start by then."""
        now, waiting = self.clock(), list(self._waiting())
        times = [job.due if job.due is not None else now + look_after for job in waiting]
        if not times or min(times) > until or now >= until:
            return False
        self.clock.advance(max(0.001, min(times) - now))
        return True

    # What differs between frameworks

    @abstractmethod
    def _name(self, task: Any) -> str:
        """The name of a task or actor, given itself or its name."""

    @abstractmethod
    def _arguments(self, payload: bytes) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The arguments in a message."""

    @abstractmethod
    def _execute(self, lease: Lease, seconds: Seconds) -> Run:
        """Run a job and end its lease, with the worker-seconds that ``seconds()`` returns."""


def _jobs(count: int | None) -> str:
    return "job" if count in {None, 1} else "jobs"


def _line(job: EnqueuedJob) -> str:
    given = [*map(repr, job.args), *(f"{name}={value!r}" for name, value in job.kwargs.items())]
    due = f", due in {job.due_in:g} s" if job.due_in else ""
    call = f"{job.task}({', '.join(given)})"
    return f"{call}, workspace {job.workspace!r}, queue {job.queue!r}{due}"
