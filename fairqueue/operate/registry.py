"""What the living workers can run: asked before a task is published that none of them knows."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from fairqueue._lazy import rows
from fairqueue._settings import Settings
from fairqueue._stores.store import StoreBase
from fairqueue._types import Admission, Job, WorkerRow
from fairqueue.errors import FairQueueError, UnknownTask

log = logging.getLogger("fairqueue.publish")

LOOKED_AT_SECONDS, ASKED_AGAIN_SECONDS = 5.0, 60.0
"""For how long a look at the workers serves for all tasks, and an answer for its own task."""
MOST_QUEUES, SAMPLED = 20, 200
"""Queues whose jobs are counted by task, and how many jobs of each are looked at."""
MOST_REMEMBERED = 10_000
"""Tasks by queue; beyond that they are asked for again."""


def living(store: StoreBase) -> list[WorkerRow]:
    """Return the workers that live, by what they have said themselves."""
    return [row for row in store.workers().values() if row.is_alive]


def known_tasks(workers: Sequence[WorkerRow], queue: str) -> set[str] | None:
    """Return what the workers of a queue can run; None: not all of them tell, or there is none.

    Without a queue, what all workers can.
    """
    found = [
        row.tasks for row in workers if not queue or row.takes(queue) or not row.names_all_queues
    ]
    told = [tasks for tasks in found if tasks is not None]
    return set().union(*told) if found and len(told) == len(found) else None


def unknown(workers: Sequence[WorkerRow], queue: str, task: str) -> str | None:
    """Name a task that no worker of the queue knows, and one like it; None: it may be known."""
    known = known_tasks(workers, queue)
    if not task or known is None or task in known:
        return None
    near = get_close_matches(task, known, n=1)
    return f"{task!r}; {near[0]!r} is known" if near else repr(task)


def unknown_jobs(
    store: StoreBase, queues: Sequence[rows.QueueRow], workers: Sequence[WorkerRow]
) -> dict[str, int]:
    """Count the jobs of tasks that no living worker of their queue knows, by a sample of each."""
    found: Counter[str] = Counter()
    for queue in sorted(queues, key=lambda row: -row.waiting)[:MOST_QUEUES]:
        known = known_tasks(workers, queue.queue) if queue.waiting else None
        if known is None:
            continue
        counts = store.sample(queue.queue, SAMPLED, by="task")
        times = (queue.waiting + queue.running) / max(1, counts.total())
        found.update({task: round(n * times) for task, n in counts.items() if task not in known})
    found.pop("", None)
    return dict(found)


class Registry:
    """Looks up tasks that this process publishes, each once, and applies ``on_unknown_task``."""

    def __init__(self, connected: Callable[[], StoreBase], settings: Settings) -> None:
        self._connected, self._policy = connected, settings.on_unknown_task
        self._workers: Sequence[WorkerRow] = ()
        self._looked_until = 0.0
        self._answers: dict[tuple[str, str], tuple[float, str | None]] = {}
        """Until when each serves, and what is said of an unknown task."""

    def refuse(self, job: Job, admission: Admission) -> None:
        """Raise UnknownTask for a task that no living worker knows, with the policy "reject"."""
        may_refuse = self._policy == "reject" and not admission.exempt
        if may_refuse and (text := self._said_of(job.queue, job.task)):
            raise UnknownTask(f"{text}; nothing was published, because of on_unknown_task='reject'")

    def warn(self, *jobs: Job) -> None:
        """Warn once of a task that no living worker knows, after its publish."""
        for job in jobs if self._policy == "warn" else ():
            _, said = self._answers.get((job.queue, job.task), (0.0, None))
            if said is None and (text := self._said_of(job.queue, job.task)):
                log.warning("%s. on_unknown_task='reject' refuses such jobs", text)

    def _said_of(self, queue: str, task: str) -> str | None:
        now = time.monotonic()
        until, text = self._answers.get((queue, task), (0.0, None))
        if now >= until:
            if len(self._answers) >= MOST_REMEMBERED:
                self._answers.clear()
            self._look(now)
            is_known = task in (known_tasks(self._workers, queue) or ())
            found, of = unknown(self._workers, queue, task), f" of queue {queue!r}" if queue else ""
            text = f"no living worker{of} knows task {found}" if found else None
            until = float("inf") if is_known else now + ASKED_AGAIN_SECONDS
            self._answers[queue, task] = until, text
        return text

    def _look(self, now: float) -> None:
        if now >= self._looked_until:
            self._looked_until = now + LOOKED_AT_SECONDS
            try:
                self._workers = living(self._connected())
            except FairQueueError as error:
                log.info("did not ask which tasks the workers know: %s", error)
                self._workers = ()
