"""Tells of a job that waits for the result of another, which cannot start while it waits.

A job that publishes another and blocks until its result is there holds a slot meanwhile. Where the
workspace has no slot left for the other, both wait, maybe for ever. A timer looks for that once,
logs it once for each task, and notes it where ``why`` and the doctor see it.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple

from fairqueue._context import JobContext, running_job
from fairqueue._lazy import explained, rows
from fairqueue._publish.framework_ids import message_id_of
from fairqueue._queue import FairQueue
from fairqueue._types import JobId, JobState, Outcome
from fairqueue.errors import FairQueueError
from fairqueue.operate.blocked_waits import note_wait

log = logging.getLogger("fairqueue.waits")

REMEMBERED = 1000

LOOKS_AFTER_SECONDS = 1.0
"""A wait that is over by then costs no look. What has no slot then waits for one."""

_waits: ContextVar[bool] = ContextVar("fairqueue_waits", default=False)


class Sent(NamedTuple):
    """What this process has sent."""

    core: FairQueue | None
    """None: no running job has sent it."""
    workspace: str
    queue: str
    task: str
    job_id: JobId


class ChildWaits:
    """What this process has sent lately, by the ids of its framework, and the waits for it."""

    def __init__(self) -> None:
        self._sent: OrderedDict[str, Sent] = OrderedDict()
        self._keyed: OrderedDict[str, JobId] = OrderedDict()
        self._told: set[tuple[str, str]] = set()

    def published(
        self,
        core: FairQueue,
        name: str,
        workspace: object,
        queue: str,
        task: str,
        job: JobId,
        *,
        keyed: bool = False,
    ) -> None:
        """Remember what was sent, and where; ``name`` is its id in its framework."""
        of = str(workspace or core.settings.default_workspace)
        by = core if running_job(core.store) is not None else None
        self._sent[name] = Sent(by, of, queue, task, job)
        self._keyed.pop(name, None)  # of an earlier publish of this id
        if keyed:
            self._keyed[name] = job
        for table in (self._sent, self._keyed):
            if len(table) > REMEMBERED:
                table.popitem(last=False)

    def sent(self, name: str) -> Sent | None:
        """Return what was sent under an id; None: nothing here, or 1,000 others since."""
        return self._sent.get(name)

    def job_of(self, name: str) -> str:
        """Return the id of its job, which is its own, unless another job had that."""
        sent = self._sent.get(name)
        return sent.job_id if sent else name

    def unique(self, name: str) -> tuple[Outcome, str] | None:
        """Return what became of a publish under a key, and which message holds the key.

        A repeated publish is one whose reply was lost: the first attempt created the job.
        """
        job_id = self._keyed.get(name)
        if job_id is None:
            return None
        if job_id.outcome is Outcome.EXISTING:
            return job_id.outcome, message_id_of(job_id)
        return Outcome.CREATED if job_id.outcome is Outcome.REPEATED else job_id.outcome, name

    @contextmanager
    def waiting(self, names: Iterable[str]) -> Iterator[None]:
        """Inside the block, the job that runs here waits for these; inner blocks do not count."""
        job = None if _waits.get() else running_job()
        sent = [] if job is None else map(self._sent.get, names)
        found = [each for each in sent if each is not None and each.core is not None]
        if job is None or not found:
            yield
            return
        token = _waits.set(True)
        look = threading.Timer(LOOKS_AFTER_SECONDS, self._look, (job, found))
        look.daemon = True
        look.start()
        try:
            yield
        finally:
            look.cancel()
            _waits.reset(token)

    def _look(self, job: JobContext, children: list[Sent]) -> None:
        with suppress(FairQueueError):  # the store is away
            for child in children:
                if self._is_told(job, child):
                    return

    def _is_told(self, job: JobContext, child: Sent) -> bool:
        """Tell it if this child has no slot."""
        core: Any = child.core
        found = core.views.why(child.job_id, workspace=job.workspace, queue=child.queue)
        text = _text(job, child, found)
        if text is None:
            return False
        if (job.task, child.task) not in self._told:
            self._told.add((job.task, child.task))
            log.warning("%s", text)
        known = job.fence, job.workspace, job.job_id, child.queue, child.job_id
        shard = core.store.of_fence(job.fence)
        if shard is not None and shard.is_leased(job.fence):
            note_wait(shard, rows.BlockedWait(*known, text))
        return True


def _text(job: JobContext, child: Sent, found: explained.Why) -> str | None:
    """Say what is wrong and what to do; None: the child can start, or is blocked otherwise."""
    if found.state is not JobState.WAITING or found.workspace != job.workspace:
        return None
    of_workspace = (b for b in found.blockers if b.scope == "workspace")
    full = next((b for b in of_workspace if b.kind == "concurrency"), None)
    if full is None:
        return None
    return (
        f"task {job.task!r} (job {job.job_id}) waits for the result of task {child.task!r} (job "
        f"{child.job_id}), which has no free slot: workspace {job.workspace!r} has {full.used} of "
        f"{full.limit:g} taken, and the task that waits holds one. Call step.invoke "
        "of fairqueue instead, which holds none while it waits, or let the other task follow in a "
        "canvas or pipeline, or raise the limit"
    )
