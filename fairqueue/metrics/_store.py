"""A namespace's state for Prometheus: read from the store with each scrape, at a bounded cost.

Workspaces beyond the busiest, and queues beyond the fullest, are summed up under one label.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fairqueue._process_metrics import OTHERS
from fairqueue._queue import FairQueue
from fairqueue._types import Pause
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError
from fairqueue.metrics._families import OF_STORE
from fairqueue.operate.views import TICKS
from fairqueue.plain import label
from fairqueue.rows import Overview, QueueRow, Runnable, Totals
from fairqueue.shares import shares_of

MOST_QUEUES = 100
STATUS_EVERY_SECONDS = 60.0
SCOPES = ("workspace", "queue", "task", "total")
NONE_RUNNABLE = Runnable(0, 0, None, is_complete=True)

log = logging.getLogger("fairqueue.metrics")


Sample = tuple[Any, ...]
"""The name of a metric, its value (None: it has none) and its labels."""


class StoreCollector(Collector):
    """Reads the store's state; one scrape at a time."""

    def __init__(self, queue: FairQueue, workspaces: int) -> None:
        self._queue, self._top = queue, workspaces
        self._lock, self._is_due = threading.Lock(), Throttle(STATUS_EVERY_SECONDS)
        self._remarks = Counter[tuple[str, str]]()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with a number; of a store that does not answer, that it is down."""
        with self._lock:
            try:
                samples = [*_read(self._queue, self._top), *self._status(), ("up", 1)]
            except FairQueueError as error:
                log.warning("the store has not answered a scrape of its metrics: %s", error)
                samples = [("up", 0)]
        found = {family.name: family.begin() for family in OF_STORE}
        for name, value, *labels in samples:
            if value is not None:
                found[name].add_metric([*map(label, labels)], value)
        yield from (family for family in found.values() if family.samples)

    def _status(self) -> Iterator[Sample]:
        """Its cost grows with what is stored, so it is asked less often."""
        if self._is_due.passes():
            try:
                found = self._queue.doctor.status().reasons
            except FairQueueError:
                self._is_due = Throttle(STATUS_EVERY_SECONDS)  # the next scrape asks again
                raise
            self._remarks = Counter((one.level.value, one.about) for one in found)
        for labels, n in self._remarks.items():
            yield "status", n, *labels

    def describe(self) -> list[Metric]:
        return [family.described() for family in OF_STORE]


def _read(queue: FairQueue, top: int) -> Iterator[Sample]:
    """Yield the numbers of one scrape."""
    began, views = time.monotonic(), queue.views
    overview = views.overview(top=top or 1)
    yield from _whole(overview)
    yield from _totals(views.totals())
    yield "workers", len(views.workers())
    yield "jobs_of_unknown_tasks", sum(views.unknown_tasks().values())
    yield "schedule_lateness_seconds", queue.schedules.lateness()
    if memory := views.memory():
        yield "redis_memory_used_bytes", memory.used_bytes
        yield "redis_memory_max_bytes", memory.max_bytes
    if durability := views.durability():
        yield "redis_evicts_jobs", int(durability.evicts_jobs)
        yield "redis_appendonly", int(durability.appends)
    fullest = sorted(
        overview.queues,
        key=lambda row: (row.queue == OTHERS, -row.waiting - row.running, row.queue),
    )
    for row in fullest[:MOST_QUEUES]:
        yield from _of_queue(row, views.runnable(row.queue) if row.runnable else NONE_RUNNABLE)
    if others := fullest[MOST_QUEUES:]:
        yield "jobs_queued", sum(row.waiting for row in others), OTHERS
        yield "jobs_running", sum(row.running for row in others), OTHERS
    yield from _of_workspaces(overview, top)
    yield "scrape_seconds", time.monotonic() - began


def _whole(overview: Overview) -> Iterator[Sample]:
    held = Counter((row.scope, row.state) for row in overview.pauses)
    for scope in SCOPES:
        yield "paused", held[scope, Pause.PAUSED], scope
        yield "draining", held[scope, Pause.DRAINING], scope
    yield "workspaces", overview.known_workspaces
    yield "observing", int(overview.observing)
    yield "jobs_without_workspace", sum(row.jobs for row in overview.without_workspace.values())
    for kind, n in overview.set_aside.items():
        yield "records_set_aside", n, kind


def _totals(totals: Totals) -> Iterator[Sample]:
    yield "jobs_acked", totals.acked
    yield "acked_worker_seconds", totals.worker_seconds
    yield "leases_expired", totals.leases_expired
    for reason, n in totals.dead.items():
        yield "jobs_died", n, reason
    for outcome in TICKS:
        yield "schedule_ticks", totals.ticks.get(outcome, 0), outcome
    yield "schedules", totals.schedules


def _of_queue(row: QueueRow, found: Runnable) -> Iterator[Sample]:
    name = row.queue
    yield "jobs_queued", row.waiting, name
    yield "jobs_running", row.running, name
    yield "jobs_runnable", found.jobs, name
    yield "jobs_startable", found.startable, name
    yield "slots_wanted", row.slots_wanted(found.startable), name
    yield "oldest_runnable_seconds", found.oldest_seconds or 0.0, name
    yield "last_start_timestamp_seconds", row.last_start, name
    yield "queue_limit", row.concurrency, name, "concurrency"
    yield "queue_limit", row.capacity, name, "capacity"


def _of_workspaces(overview: Overview, top: int) -> Iterator[Sample]:
    rows = [row for row in overview.workspaces if row.workspace != OTHERS][:top]
    shares = shares_of(overview.workspaces)
    for row in rows:
        name, share = row.workspace, shares[row.workspace]
        yield "workspace_jobs_queued", row.waiting + row.scheduled, name
        yield "workspace_jobs_running", row.running, name
        yield "workspace_limit", row.limit, name
        yield "workspace_oldest_wait_seconds", row.oldest_wait_seconds, name
        yield "workspace_dead_letters", row.dead, name
        yield "workspace_share", share.has, name
        yield "workspace_fair_share", share.fair, name
    queued = overview.queued - sum(row.waiting + row.scheduled for row in rows)
    running = overview.running - sum(row.running for row in rows)
    yield "workspace_jobs_queued", max(0, queued), OTHERS
    yield "workspace_jobs_running", max(0, running), OTHERS
