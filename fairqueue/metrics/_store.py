"""A namespace's state for Prometheus: read from the store with each scrape, at a bounded cost.

Workspaces beyond the busiest, and queues beyond the fullest, are summed up under one label.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fairqueue._queue import FairQueue
from fairqueue._tally import OTHERS
from fairqueue._types import Pause
from fairqueue._utils import Throttle
from fairqueue.errors import FairQueueError
from fairqueue.metrics._families import OF_STORE
from fairqueue.operate.views import TICKS
from fairqueue.plain import printable
from fairqueue.rows import Overview, QueueRow, Runnable
from fairqueue.shares import shares_of

MOST_QUEUES = 100
STATUS_EVERY_SECONDS = 60.0
SCOPES = ("workspace", "queue", "task", "total")
NONE_RUNNABLE = Runnable(0, 0, None, is_complete=True)

log = logging.getLogger("fairqueue.metrics")


class StoreCollector(Collector):
    """Reads the store's state; one scrape at a time."""

    def __init__(self, queue: FairQueue, workspaces: int) -> None:
        self._queue, self._top = queue, workspaces
        self._lock, self._is_due = threading.Lock(), Throttle(STATUS_EVERY_SECONDS)
        self._remarks = Counter[tuple[str, str]]()

    def collect(self) -> Iterator[Metric]:
        """Yield every number; of a store that does not answer, only that it is down."""
        with self._lock:
            reading = _Reading()
            try:
                reading.read(self._queue, self._top)
                self._add_status(reading)
                reading.add("up", 1)
            except FairQueueError as error:
                log.warning("the store has not answered a scrape of its metrics: %s", error)
                reading = _Reading()
                reading.add("up", 0)
        yield from reading.families()

    def _add_status(self, reading: _Reading) -> None:
        """Its cost grows with what is stored, so it is asked less often."""
        if self._is_due.passes():
            try:
                found = self._queue.doctor.status().reasons
            except FairQueueError:
                self._is_due = Throttle(STATUS_EVERY_SECONDS)  # the next scrape asks again
                raise
            self._remarks = Counter((one.level.value, one.about) for one in found)
        for labels, n in self._remarks.items():
            reading.add("status", n, *labels)

    def describe(self) -> list[Metric]:
        return [family.described() for family in OF_STORE]


class _Reading:
    """The numbers of one scrape."""

    def __init__(self) -> None:
        self._found = {family.name: family.begin() for family in OF_STORE}

    def families(self) -> Iterator[Metric]:
        """The metrics that have a number."""
        yield from (family for family in self._found.values() if family.samples)

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a number, unless it is None."""
        if value is not None:
            self._found[name].add_metric([*map(printable, labels)], value)

    def read(self, queue: FairQueue, top: int) -> None:
        began = time.monotonic()
        overview, totals = queue.views.overview(top=top or 1), queue.views.totals()
        self._add_whole(overview)
        self.add("workers", len(queue.views.workers()))
        self.add("jobs_of_unknown_tasks", sum(queue.views.unknown_tasks().values()))
        self.add("jobs_acked", totals.acked)
        self.add("acked_worker_seconds", totals.worker_seconds)
        self.add("leases_expired", totals.leases_expired)
        for reason, n in totals.dead.items():
            self.add("jobs_died", n, reason)
        for outcome in TICKS:
            self.add("schedule_ticks", totals.ticks.get(outcome, 0), outcome)
        self.add("schedules", totals.schedules)
        self.add("schedule_lateness_seconds", queue.schedules.lateness())
        if memory := queue.views.memory():
            self.add("redis_memory_used_bytes", memory.used_bytes)
            self.add("redis_memory_max_bytes", memory.max_bytes)
        if durability := queue.views.durability():
            self.add("redis_evicts_jobs", int(durability.evicts_jobs))
            self.add("redis_appendonly", int(durability.appends))
        self._add_queues(queue, overview.queues)
        self._add_workspaces(overview, top)
        self.add("scrape_seconds", time.monotonic() - began)

    def _add_whole(self, overview: Overview) -> None:
        held = Counter((row.scope, row.state) for row in overview.pauses)
        for scope in SCOPES:
            self.add("paused", held[scope, Pause.PAUSED], scope)
            self.add("draining", held[scope, Pause.DRAINING], scope)
        self.add("workspaces", overview.known_workspaces)
        self.add("observing", int(overview.observing))
        unnamed = sum(row.jobs for row in overview.without_workspace.values())
        self.add("jobs_without_workspace", unnamed)
        for kind, n in overview.set_aside.items():
            self.add("records_set_aside", n, kind)

    def _add_queues(self, queue: FairQueue, rows: Sequence[QueueRow]) -> None:
        fullest = sorted(rows, key=lambda row: (-row.waiting - row.running, row.queue))
        for row in fullest[:MOST_QUEUES]:
            found = queue.views.runnable(row.queue) if row.runnable else NONE_RUNNABLE
            self._add_queue(row, found)
        others = fullest[MOST_QUEUES:]
        if others:
            self.add("jobs_queued", sum(row.waiting for row in others), OTHERS)
            self.add("jobs_running", sum(row.running for row in others), OTHERS)

    def _add_queue(self, row: QueueRow, found: Runnable) -> None:
        name = row.queue
        self.add("jobs_queued", row.waiting, name)
        self.add("jobs_running", row.running, name)
        self.add("jobs_runnable", found.jobs, name)
        self.add("jobs_startable", found.startable, name)
        self.add("slots_wanted", row.slots_wanted(found.startable), name)
        self.add("oldest_runnable_seconds", found.oldest_seconds or 0.0, name)
        self.add("last_start_timestamp_seconds", row.last_start, name)
        self.add("queue_limit", row.concurrency, name, "concurrency")
        self.add("queue_limit", row.capacity, name, "capacity")

    def _add_workspaces(self, overview: Overview, top: int) -> None:
        rows = [row for row in overview.workspaces if row.workspace != OTHERS][:top]
        shares = shares_of(overview.workspaces)
        for row in rows:
            name, share = row.workspace, shares[row.workspace]
            self.add("workspace_jobs_queued", row.waiting + row.scheduled, name)
            self.add("workspace_jobs_running", row.running, name)
            self.add("workspace_limit", row.limit, name)
            self.add("workspace_oldest_wait_seconds", row.oldest_wait_seconds, name)
            self.add("workspace_dead_letters", row.dead, name)
            self.add("workspace_share", share.has, name)
            self.add("workspace_fair_share", share.fair, name)
        queued = overview.queued - sum(row.waiting + row.scheduled for row in rows)
        self.add("workspace_jobs_queued", max(0, queued), OTHERS)
        running = overview.running - sum(row.running for row in rows)
        self.add("workspace_jobs_running", max(0, running), OTHERS)
