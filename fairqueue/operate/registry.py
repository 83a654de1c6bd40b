"""What the living workers can run: asked before a task is published that none of them knows."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from fairqueue._settings import Settings
from fairqueue._stores.store import AnyStore
from fairqueue._types import Admission, Job
from fairqueue.errors import FairQueueError, UnknownTask
from fairqueue.lists import QueueRow, WorkerRow

log = logging.getLogger("fairqueue.publish")

LOOKED_AT_SECONDS = 5.0
"""For so long a look at the workers serves for other tasks, too."""
ASKED_AGAIN_SECONDS = 60.0
MOST_QUEUES, SAMPLED = 20, 200
"""Queues whose jobs are counted by task, and how many jobs of each are looked at."""
MOST_REMEMBERED = 10_000
"""Tasks by queue; beyond that they are asked for again."""


def with_apps(store: AnyStore, rows: Sequence[WorkerRow]) -> list[WorkerRow]:
    """Add to each worker what its app has declared."""
    apps = dict(store.declared()) if any(row.declares for row in rows) else {}
    return [
        replace(row, app=apps[row.declares].name, tasks=apps[row.declares].tasks)
        if row.declares in apps
        else row
        for row in rows
    ]


def living(store: AnyStore) -> list[WorkerRow]:
    """The workers that live, by what they have said themselves, with what they declare."""
    rows = {row.owner: row for page in store.workers() for row in page}
    return with_apps(store, [row for row in rows.values() if row.is_alive])


def takers(workers: Sequence[WorkerRow], queue: str) -> list[WorkerRow]:
    """The workers that take jobs from a queue, or may do."""
    return [row for row in workers if row.takes(queue) or not row.names_all_queues]


def tell(workers: Sequence[WorkerRow]) -> bool:
    """Whether there are workers, and each says which tasks it knows."""
    return bool(workers) and all(row.tasks is not None for row in workers)


def knows(workers: Sequence[WorkerRow], queue: str, task: str) -> bool | None:
    """Whether one of the living workers of a queue knows a task; None: not all of them tell."""
    found = takers(workers, queue)
    if any(task in (row.tasks or ()) for row in found):
        return True
    return False if tell(found) else None


def similar(workers: Sequence[WorkerRow], queue: str, task: str) -> str | None:
    """The name most like this one that a worker of the queue knows; None: none is like it."""
    names = {name for row in takers(workers, queue) for name in row.tasks or ()}
    return next(iter(get_close_matches(task, names, n=1)), None)


def unknown_jobs(
    store: AnyStore, queues: Sequence[QueueRow], workers: Sequence[WorkerRow]
) -> dict[str, int]:
    """Count the jobs of tasks that no living worker of their queue knows, by a sample of each."""
    found: Counter[str] = Counter()
    fullest = sorted(queues, key=lambda row: -row.waiting)[:MOST_QUEUES]
    for queue in [row for row in fullest if row.waiting and tell(takers(workers, row.queue))]:
        counts = store.sample(queue.queue, SAMPLED, by="task")
        times = (queue.waiting + queue.running) / max(1, counts.total())
        for task, n in counts.items():
            if task and knows(workers, queue.queue, task) is False:
                found[task] += round(n * times)
    return dict(found)


class Registry:
    """Looks up tasks that this process publishes, each once, and applies ``on_unknown_task``."""

    def __init__(self, connected: Callable[[], AnyStore], settings: Settings) -> None:
        self._connected, self._policy = connected, settings.on_unknown_task
        self._workers: Sequence[WorkerRow] = ()
        self._looked_until = 0.0
        self._until: dict[tuple[str, str], float] = {}
        self._unknown: dict[tuple[str, str], str] = {}

    def workers(self) -> Sequence[WorkerRow]:
        """Return the living workers, as of some seconds ago at most."""
        now = time.monotonic()
        if now >= self._looked_until:
            self._workers = living(self._connected())
            self._looked_until = now + LOOKED_AT_SECONDS
        return self._workers

    def refuse(self, job: Job, admission: Admission) -> None:
        """Raise UnknownTask for a task that no living worker knows, with the policy "reject"."""
        may_refuse = self._policy == "reject" and not admission.exempt
        if may_refuse and (text := self._said_of(job.queue, job.task)):
            raise UnknownTask(f"{text}; nothing was published, because of on_unknown_task='reject'")

    def warn(self, *jobs: Job) -> None:
        """Warn once of a task that no living worker knows, after its publish."""
        if self._policy != "warn":
            return
        for job in jobs:
            known = (job.queue, job.task) in self._unknown
            text = None if known else self._said_of(job.queue, job.task)
            if text:
                log.warning("%s. on_unknown_task='reject' refuses such jobs", text)

    def _said_of(self, queue: str, task: str) -> str | None:
        pair, now = (queue, task), time.monotonic()
        if now < self._until.get(pair, 0.0):
            return self._unknown.get(pair)
        if not task:
            return None
        try:
            workers = self.workers()
        except FairQueueError as error:
            log.info("did not ask whether a worker knows task %r: %s", task, error)
            workers = ()
        known = knows(workers, queue, task)
        if len(self._until) >= MOST_REMEMBERED:
            self._until.clear()
        self._until[pair] = float("inf") if known else now + ASKED_AGAIN_SECONDS
        if known is not False:
            self._unknown.pop(pair, None)
            return None
        near = similar(workers, queue, task)
        also = f"; {near!r} is known" if near else ""
        self._unknown[pair] = f"no living worker of queue {queue!r} knows task {task!r}{also}"
        return self._unknown[pair]
