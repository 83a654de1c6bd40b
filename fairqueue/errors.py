"""Every error that fairqueue raises.

::

    FairQueueError
    ├── CapacityExceeded     the job was not accepted: its workspace, queue or the total is full
    │   └── BatchRefused         some jobs of a batch were not accepted
    ├── RequestRejected      a web request got no place: too many are in flight
    ├── UniqueKeyHeld        a dead job was not replayed: another job holds its unique key
    ├── LeaseLost            the caller no longer holds the lease of the job
    ├── StepError            a step of a task cannot be kept
    │   ├── StepRepeated         its name is used twice in one run
    │   ├── StepTooLarge         its result is too large to keep
    │   ├── StepNotSerializable  its result is no JSON
    │   └── ChildLost            a child has ended without a result
    ├── ConfigurationError   a setting, name, URL or server property is unknown or impossible
    │   ├── WorkspaceUnresolved  the workspace of a call could not be determined
    │   └── UnknownTask          no worker of the app knows the task
    ├── AlreadyRunning       another process does what only one may do at a time
    └── StoreUnavailable     the store is unreachable or does not accept writes
        ├── PublishInterrupted   the same in the middle of a publish of many jobs
        └── BatchInterrupted     the same in the middle of an adapter's batch

Suspended, which ends the run of a task that waits for its children, is a BaseException.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairqueue.plain import count_jobs, counted


class FairQueueError(Exception):
    """Base class of all errors that fairqueue raises."""


class CapacityExceeded(FairQueueError):
    """The job was rejected because a capacity is reached; nothing was stored.

    ``scope`` says which capacity: ``"workspace"``, ``"queue"`` or ``"total"``. ``limit`` and
    ``waiting`` are numbers of jobs, scheduled ones included. ``retry_after`` is in seconds, at
    least 1.0, estimated from the workspace's drain rate, with jitter so that rejected callers do
    not retry at the same moment. ``draining``: the scope accepts no new jobs until it is resumed,
    and ``limit`` is 0. The scope ``"task"`` is always draining, and its ``waiting`` is 0, since
    the jobs of a task are not counted. ``jobs`` is how many there was no room for together: more
    than 1 for a group that is accepted whole or not at all. ``kept``, where a queue or
    the total is not full: how many places it keeps for workspaces that go before this one.
    """

    def __init__(  # noqa: PLR0917 - see draining
        self,
        scope: str,
        limit: int,
        waiting: int,
        retry_after: float,
        workspace: str,
        queue: str,
        task: str = "",
        draining: bool = False,  # noqa: FBT001, FBT002 - all arguments are an exception's args
        jobs: int = 1,
        kept: int = 0,
    ) -> None:
        super().__init__(
            scope, limit, waiting, retry_after, workspace, queue, task, draining, jobs, kept
        )
        self.scope = scope
        self.limit = limit
        self.waiting = waiting
        self.retry_after = retry_after
        self.workspace = workspace
        self.queue = queue
        self.task = task
        self.draining = draining or scope == "task"
        self.jobs = jobs
        self.kept = kept

    @property
    def never_fits(self) -> bool:
        """Whether these are more jobs at once than the capacity: waiting makes no room for them."""
        return self.jobs > max(1, self.limit) and not self.draining

    def __str__(self) -> str:
        return self._text()

    def _text(self) -> str:
        where = {
            "workspace": f"workspace {self.workspace!r}",
            "queue": f"queue {self.queue!r}",
            "task": f"task {self.task!r}",
        }.get(self.scope, "the whole store")
        if self.draining:
            return f"{where} is draining: it accepts no new jobs until it is resumed"
        wanted, waiting = count_jobs(self.jobs), count_jobs(self.waiting)
        if self.never_fits:
            return (
                f"{where} has no room for {wanted} at once: its capacity is {self.limit}; "
                "publish fewer together, or raise the capacity"
            )
        if self.kept:
            return (
                f"{where} keeps its free places for workspaces that have fewer jobs there, "
                f"or were refused first: {waiting} waiting, capacity {self.limit}, places kept "
                f"{self.kept}; retry in {self.retry_after:.1f} s or raise the capacity"
            )
        if self.jobs > 1:
            return (
                f"{where} has no room for {wanted} at once: {waiting} waiting, capacity "
                f"{self.limit}; retry in {self.retry_after:.1f} s or raise the capacity"
            )
        return (
            f"{where} is full: {waiting} waiting, capacity {self.limit}; "
            f"retry in {self.retry_after:.1f} s or raise the capacity"
        )


class BatchRefused(CapacityExceeded):
    """Some jobs of a batch were refused; the other fields are those of the first of them.

    ``stored`` and ``refused`` name the jobs by the ids of their framework: the tasks or messages
    that were published, and those that were not, with the error of each.
    """

    stored: Sequence[str] = ()
    refused: Mapping[str, FairQueueError] = {}

    def __str__(self) -> str:
        n, of = len(self.refused), count_jobs(len(self.refused) + len(self.stored))
        were = "was" if n == 1 else "were"
        return f"{n} of {of} of a batch {were} refused; the first because {self._text()}"


class RequestRejected(FairQueueError):
    """A web request got no place, since a limit of requests in flight is reached.

    ``scope`` says which: ``"workspace"`` or ``"total"``. ``retry_after`` is in seconds, at least
    1.0, with jitter so that rejected clients do not return at the same moment.
    """

    def __init__(
        self, scope: str, limit: int, in_flight: int, retry_after: float, workspace: str
    ) -> None:
        super().__init__(scope, limit, in_flight, retry_after, workspace)
        self.scope = scope
        self.limit = limit
        self.in_flight = in_flight
        self.retry_after = retry_after
        self.workspace = workspace

    def __str__(self) -> str:
        of_all = f"all workspaces: one of workspace {self.workspace!r}"
        of = f"workspace {self.workspace!r}: one" if self.scope == "workspace" else of_all
        held = counted(self.in_flight, "request")
        return (
            f"{held} in flight, at most {self.limit} are allowed, of {of} "
            f"was rejected; retry in {self.retry_after:.1f} s or raise the limit 'requests'"
        )


class LeaseLost(FairQueueError):
    """The lease expired or the job belongs to another owner now; nothing was changed.

    The job may be running elsewhere. A worker that sees this error should stop and discard what
    it has not written yet.
    """

    def __init__(self, job_id: str, workspace: str) -> None:
        super().__init__(job_id, workspace)
        self.job_id = job_id
        self.workspace = workspace

    def __str__(self) -> str:
        return (
            f"lost the lease of job {self.job_id!r} of workspace {self.workspace!r}: "
            "the job may be running elsewhere; stop and discard unwritten results"
        )


class StepError(FairQueueError):
    """A step of a task was not kept, so it runs again when the task does."""


class StepRepeated(StepError):
    """Two steps of one run have the same name; the second one was not run."""


class StepTooLarge(StepError):
    """A step returned too much, or a task has too many steps."""


class StepNotSerializable(StepError):
    """A step returned what JSON cannot hold."""


class ChildLost(StepError):
    """A child of a task has ended, and its result is not in the result backend any more."""


class Suspended(BaseException):
    """Ends the run of a task that waits for a child; the task runs again once the child has ended.

    No ``except Exception`` of the task holds it up. An adapter turns it into what its framework
    takes for a run that is given back.
    """


class UniqueKeyHeld(FairQueueError):
    """A dead letter was not replayed, since another job holds its unique key; it stays dead."""

    def __init__(self, job_id: str, workspace: str, holder: str) -> None:
        super().__init__(job_id, workspace, holder)
        self.job_id = job_id
        self.workspace = workspace
        self.holder = holder

    def __str__(self) -> str:
        return (
            f"dead letter {self.job_id!r} of workspace {self.workspace!r} was not replayed: job "
            f"{self.holder!r} holds its unique key; replay it once that job has ended"
        )


class ConfigurationError(FairQueueError, ValueError):
    """A setting, URL, name or server property is unknown or impossible; the message says which."""


class WorkspaceUnresolved(ConfigurationError):
    """The workspace of a call could not be determined; nothing was published."""


class UnknownTask(ConfigurationError):
    """No living worker of the queue knows this task; nothing was published."""


class StoreUnavailable(FairQueueError):
    """The store is unreachable or does not accept writes.

    If only the reply was lost, the call may have taken effect.
    """

    may_be_stored = True
    """Whether the call may have taken effect; False: it did not reach the store, or was refused."""


class AlreadyRunning(FairQueueError):
    """Another process does what only one may do at a time, such as ``fairqueue reshard``."""


class PublishInterrupted(StoreUnavailable):
    """The store became unavailable in the middle of a ``publish_many``.

    ``outcomes`` are those of the first jobs, one for each. Of the others the next
    hundred may be stored, and over several shards any. Publish all of them again with the same
    ``job_id``: none is stored twice.
    """

    def __init__(self, reason: str, outcomes: Sequence[Any] = ()) -> None:
        super().__init__(reason)
        self.outcomes: tuple[Any, ...] = tuple(outcomes)


class BatchInterrupted(StoreUnavailable):
    """The store became unavailable while a batch was published.

    ``stored`` has the framework's ids of the tasks or messages that were published for sure, and
    ``unknown`` those of the others: at most a hundred of these were published, too, or over several
    shards any.
    """

    stored: Sequence[str] = ()
    unknown: Sequence[str] = ()

    def __str__(self) -> str:
        n, of = len(self.stored), count_jobs(len(self.stored) + len(self.unknown))
        return f"published before the batch was interrupted: {n} of {of}; {self.args[0]}"
