"""The metrics: name, type, labels and meaning of each. docs/metrics.md says when to alert."""

from __future__ import annotations

from typing import Any, NamedTuple

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

KINDS: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Family(NamedTuple):
    """One metric. Its name has ``fairqueue_`` before it, and a counter's ``_total`` behind."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def shown(self) -> str:
        """The name as Prometheus shows it."""
        return f"fairqueue_{self.name}{'_total' if self.kind == 'counter' else ''}"

    def begin(self) -> Any:
        """Return an empty metric, to which numbers are added."""
        return KINDS[self.kind](self.shown, self.meaning, labels=self.labels)

    def described(self) -> Metric:
        """Return its description, without a number."""
        return Metric(self.shown, self.meaning, self.kind)


QUEUE, WORKSPACE = ("queue",), ("workspace",)

OF_STORE = (
    Family("up", "gauge", (), "1 if Redis answered; if 0, no other metric is exported"),
    Family("scrape_seconds", "gauge", (), "how long it took to read these numbers"),
    Family("workers", "gauge", (), "worker processes that are alive"),
    Family(
        "workspaces",
        "gauge",
        (),
        "approximate number of workspaces with jobs, debts or dead letters",
    ),
    Family("observing", "gauge", (), "1: limits are only observed, enforce='observe'"),
    Family("paused", "gauge", ("scope",), "paused workspaces, queues, tasks, or everything"),
    Family("draining", "gauge", ("scope",), "draining workspaces, queues, tasks, or everything"),
    Family("jobs_acked", "counter", (), "jobs that were acked since the store began"),
    Family("acked_worker_seconds", "counter", (), "worker-seconds of these jobs"),
    Family(
        "leases_expired",
        "counter",
        (),
        "leases that expired because the worker stopped renewing them",
    ),
    Family(
        "jobs_died",
        "counter",
        ("reason",),
        "dead letters since the store began: max_deliveries, expired or rejected",
    ),
    Family(
        "schedule_ticks",
        "counter",
        ("outcome",),
        "ticks of schedules since the store began: published, skipped, missed, or full at first",
    ),
    Family(
        "schedule_lateness_seconds", "gauge", (), "seconds by which the most overdue tick is late"
    ),
    Family("schedules", "gauge", (), "schedules of all workspaces"),
    Family("jobs_without_workspace", "counter", (), "jobs that named no workspace"),
    Family("jobs_of_unknown_tasks", "gauge", (), "jobs that no living worker can run, by a sample"),
    Family("status", "gauge", ("level", "about"), "warnings and problems of `fairqueue status`"),
    Family("records_set_aside", "counter", ("kind",), "damaged records that were passed"),
    Family("redis_memory_used_bytes", "gauge", (), "memory that Redis uses, also for other data"),
    Family("redis_memory_max_bytes", "gauge", (), "its maxmemory, if it is set"),
    Family("redis_evicts_jobs", "gauge", (), "1: its maxmemory-policy drops jobs when it is full"),
    Family("redis_appendonly", "gauge", (), "1: it has an append-only file; 0: a crash loses jobs"),
    Family("jobs_queued", "gauge", QUEUE, "waiting and scheduled jobs"),
    Family("jobs_running", "gauge", QUEUE, "running jobs"),
    Family("jobs_runnable", "gauge", QUEUE, "due jobs below every limit and not paused"),
    Family("jobs_startable", "gauge", QUEUE, "runnable jobs that could all start at once"),
    Family("slots_wanted", "gauge", QUEUE, "worker slots that it could use: running + startable"),
    Family("oldest_runnable_seconds", "gauge", QUEUE, "for how long a job could have started"),
    Family("last_start_timestamp_seconds", "gauge", QUEUE, "when a job started last"),
    Family("queue_limit", "gauge", ("queue", "limit"), "its concurrency and capacity, if limited"),
    Family("workspace_jobs_queued", "gauge", WORKSPACE, "waiting and scheduled jobs"),
    Family("workspace_jobs_running", "gauge", WORKSPACE, "running jobs"),
    Family("workspace_limit", "gauge", WORKSPACE, "its concurrency limit, if it has one"),
    Family("workspace_oldest_wait_seconds", "gauge", WORKSPACE, "age of its oldest waiting job"),
    Family("workspace_dead_letters", "gauge", WORKSPACE, "its dead letters"),
    Family("workspace_share", "gauge", WORKSPACE, "its share of the running jobs, from 0 to 1"),
    Family("workspace_fair_share", "gauge", WORKSPACE, "its present fair share, from 0 to 1"),
)
"""The state, read from the store: once for a namespace."""

OF_PROCESS = (
    Family("jobs_published", "counter", QUEUE, "jobs that this process has published"),
    Family(
        "publishes_rejected",
        "counter",
        ("queue", "scope"),
        "publishes rejected at a full capacity or in a drain, by its scope",
    ),
    Family("buffered_jobs", "gauge", (), "jobs that this process keeps on disk: Redis is away"),
    Family("buffer_oldest_seconds", "gauge", (), "for how long it keeps the oldest of them"),
    Family("buffer_refused", "gauge", (), "jobs that it keeps because Redis refused them for good"),
    Family("buffer_sent", "counter", QUEUE, "buffered jobs that it has sent"),
    Family("inline_runs", "counter", (), "tasks that ran in this process because Redis was away"),
    Family("background_failures", "counter", ("loop",), "failures of work beside jobs"),
    Family("jobs_started", "counter", QUEUE, "leases that were granted"),
    Family(
        "leases_ended",
        "counter",
        ("queue", "ending"),
        "leases by their end: acked, released, returned (counted), declined, suspended, dead, lost",
    ),
    Family("runs", "counter", ("queue", "outcome"), "runs that succeeded, failed or are retried"),
    Family("steps", "counter", ("outcome",), "durable steps: run, kept from before, or lease lost"),
    Family("suspended", "counter", QUEUE, "runs that ended because they wait for another task"),
    Family("worker_seconds", "counter", QUEUE, "worker-seconds of leases that have ended"),
    Family("wait_seconds", "histogram", QUEUE, "from when a job was due to its first start"),
    Family(
        "runnable_wait_seconds",
        "histogram",
        QUEUE,
        "the part of that time in which it could have run",
    ),
    Family("run_seconds", "histogram", QUEUE, "how long a run took"),
    Family("workspace_publishes_rejected", "counter", WORKSPACE, "its rejected publishes"),
    Family("workspace_jobs_started", "counter", WORKSPACE, "its leases"),
    Family("workspace_runs", "counter", ("workspace", "outcome"), "its runs by their outcome"),
    Family("workspace_worker_seconds", "counter", WORKSPACE, "its worker-seconds"),
    Family("workspace_wait_seconds", "histogram", WORKSPACE, "as wait_seconds"),
    Family("workspace_runnable_wait_seconds", "histogram", WORKSPACE, "as runnable_wait_seconds"),
)
"""Events, counted by the process that sees them."""
