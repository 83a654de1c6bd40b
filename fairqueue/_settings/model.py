"""The settings of fairqueue as one validated model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from fairqueue._settings import parsing, problems
from fairqueue._settings.fields import Model, by_name, setting
from fairqueue._settings.parsing import number, number_or_none, one_of, whole
from fairqueue._types import Limits, StoredLimits
from fairqueue._validation import check_app, check_name, check_namespace, name_or_none
from fairqueue.errors import ConfigurationError

MOST = 2_000_000_000
"""The largest count; Lua and JSON represent it exactly."""

COUNT = whole(0, MOST, optional=True)
FROM_ZERO = whole(0, MOST)
FROM_ONE = whole(1, MOST)
FROM_ONE_OR_NONE = whole(1, MOST, optional=True)
STARTS = number(1, MOST, optional=True)
RATE = parsing.rate
OFF = False


def _name(kind: str) -> Callable[[Any], str]:
    return lambda name: check_name(kind, name)


class _Entry(Model):
    def conflicts(self) -> Iterator[str]:
        for of in ("", "workspace_"):
            burst, rate = f"{of}burst", f"{of}rate"
            if getattr(self, burst, None) is not None and getattr(self, rate, None) is None:
                yield f"{burst} has no effect without {rate}: set {rate}, too"

    def limits(self) -> Limits:
        """Return these settings as limits for the store; a weight only if it was given."""
        names = (name for name in self.fields if name != "weight" or name in self.given)
        return Limits(**{name: getattr(self, name) for name in names})


class WorkspaceSettings(_Entry):
    """Limits of one workspace; None means the default limit."""

    concurrency: int | None = setting(
        COUNT, None, "largest number of its running jobs, from 0; None: the default"
    )
    weight: float = setting(
        number(0.001, 1000), 1.0, "its share relative to other workspaces, 0.001 to 1000"
    )
    capacity: int | None = setting(
        COUNT, None, "largest number of its waiting jobs, from 0; None: the default"
    )
    rate: float | None = setting(
        RATE, None, 'largest number of starts per second, or as "100/m"; None: no limit'
    )
    burst: float | None = setting(STARTS, None, "starts allowed at once after an idle time, from 1")
    reserve: int | None = setting(
        COUNT, None, "below this many running jobs it gets the next free slot, from 0"
    )
    parent: str | None = setting(
        lambda name: name_or_none("workspace", number_or_none(name)),
        None,
        "name of the group whose weight and concurrency it shares",
    )
    requests: int | None = setting(
        COUNT, None, "largest number of its web requests in flight, from 0; None: the default"
    )


class TaskSettings(_Entry):
    """Limits of one task."""

    concurrency: int | None = setting(
        COUNT,
        None,
        "largest number of its running jobs in all workspaces together; None: no limit",
    )
    workspace_concurrency: int | None = setting(
        COUNT, None, "largest number of its running jobs in each workspace; None: no limit"
    )
    rate: float | None = setting(
        RATE, None, 'largest number of starts per second, or as "100/m"; None: no limit'
    )
    burst: float | None = setting(STARTS, None, "starts allowed at once after an idle time, from 1")
    workspace_rate: float | None = setting(
        RATE,
        None,
        "largest number of its starts per second in each workspace; None: no limit",
    )
    workspace_burst: float | None = setting(
        STARTS, None, "its starts allowed at once in each workspace, from 1"
    )


class QueueSettings(_Entry):
    """Limits of one queue."""

    concurrency: int | None = setting(COUNT, None, "largest number of its running jobs, from 0")
    capacity: int | None = setting(COUNT, None, "largest number of its waiting jobs, from 0")


class TotalSettings(QueueSettings):
    """Live limits of everything together."""

    requests: int | None = setting(COUNT, None, "largest number of web requests in flight, from 0")


class DefaultSettings(TotalSettings):
    """Limits of each workspace that has none of its own."""

    rate: float | None = setting(RATE, None, 'largest number of starts per second, or as "100/m"')
    burst: float | None = setting(STARTS, None, "starts allowed at once after an idle time, from 1")


LIMITS: Mapping[str, type[_Entry]] = {
    "workspace": WorkspaceSettings,
    "task": TaskSettings,
    "queue": QueueSettings,
    "default": DefaultSettings,
    "total": TotalSettings,
}
"""The limits that each kind of scope has."""


def live_limits(limits: Mapping[str, Any], kind: str) -> Limits:
    """Validate live limits of a kind of scope; ConfigurationError names what is wrong."""
    of = LIMITS[kind]
    unknown = [name for name in limits if name not in of.fields]
    if unknown:
        known = ", ".join(of.fields)
        raise ConfigurationError(f"unknown limit {unknown[0]!r}; known: {known}")
    return of(**limits).limits()


class Settings(Model):
    """All settings by name. Immutable.

    :meth:`load` makes one. Explicit options take precedence over ``FAIRQUEUE_*`` environment
    variables. The reference is ``docs/settings.md``.
    """

    namespace: str = setting(
        check_namespace, "fairqueue", "key prefix, printable, at most 100 bytes, without braces"
    )
    default_workspace: str = setting(
        _name("workspace"), "default", "workspace of jobs that name none, 1 to 200 bytes"
    )
    workspace_from: tuple[str | Callable[..., Any], ...] = setting(
        parsing.workspace_sources,
        ("header:workspace",),
        'where a job says its workspace, such as "kwarg:tenant_id"',
    )
    on_missing_workspace: Literal["warn", "reject", "default"] = setting(
        one_of("warn", "reject", "default"),
        "warn",
        "a publish whose workspace is not found: 'warn' once per task, 'reject' it, "
        "or take the 'default' one",
    )
    app: str | None = setting(
        check_app, None, "name of the app whose tasks this worker runs; None: its framework's"
    )
    on_unknown_task: Literal["warn", "reject", "ignore"] = setting(
        one_of("warn", "reject", "ignore"),
        "warn",
        "a publish of a task that no living worker of its queue knows: 'warn' once, "
        "'reject' it with UnknownTask, or 'ignore' that",
    )
    workspace_concurrency: int | None = setting(
        COUNT, None, "default concurrency per workspace: running jobs, from 0; None: no limit"
    )
    workspace_capacity: int | None = setting(
        COUNT, None, "default capacity per workspace: waiting jobs, from 0; None: no limit"
    )
    workspace_rate: float | None = setting(
        RATE,
        None,
        'default rate per workspace: starts per second, or as "100/m"; None: no limit',
    )
    workspace_burst: float | None = setting(
        STARTS, None, "default burst per workspace: starts at once after an idle time, from 1"
    )
    queue_capacity: int | None = setting(
        COUNT, None, "default capacity per queue: waiting jobs, from 0; None: no limit"
    )
    total_capacity: int | None = setting(
        COUNT, None, "largest number of waiting jobs in all, from 0; None: no limit"
    )
    total_concurrency: int | None = setting(
        COUNT, None, "largest number of running jobs in all, from 0; None: no limit"
    )
    workspace_requests: int | None = setting(
        COUNT, None, "default for web requests in flight per workspace, from 0; None: no limit"
    )
    total_requests: int | None = setting(
        COUNT, None, "largest number of web requests in flight in all, from 0; None: no limit"
    )
    workspaces: Mapping[str, WorkspaceSettings] = setting(
        by_name(_name("workspace"), WorkspaceSettings), {}, "limits per workspace name"
    )
    tasks: Mapping[str, TaskSettings] = setting(
        by_name(_name("task"), TaskSettings), {}, "limits per task name"
    )
    queues: Mapping[str, QueueSettings] = setting(
        by_name(_name("queue"), QueueSettings), {}, "limits per queue name"
    )
    on_full: Literal["reject", "block"] = setting(
        one_of("reject", "block"),
        "reject",
        "at a full capacity: 'reject' a publish at once, or 'block' it first",
    )
    block_seconds: float = setting(
        number(0, 86_400, above=True),
        10.0,
        "how long 'block' waits for capacity, in seconds up to 86400",
    )
    on_unavailable: Literal["raise", "buffer", "inline"] = setting(
        one_of("raise", "buffer", "inline"),
        "raise",
        "a publish while the store is away: 'raise' an error, 'buffer' the job on disk "
        "until the store answers, or run it 'inline'",
    )
    buffer_path: Path | None = setting(
        parsing.path, None, "directory for buffered jobs, on a disk that outlives the process"
    )
    buffer_jobs: int = setting(
        FROM_ONE, 10_000, "largest number of jobs that one process buffers, from 1"
    )
    enforce: Literal["limits", "observe"] = setting(
        one_of("limits", "observe"),
        "limits",
        '"observe": only count what limits would block or reject',
    )
    shards: int = setting(
        whole(1, 64), 1, "number of shards, up to 64; default: of the servers in the URL"
    )
    min_replicas: int = setting(
        FROM_ZERO, 0, "replicas that confirm each write before its call returns, from 0"
    )
    replica_wait_seconds: float = setting(
        number(0, 60, above=True), 1.0, "how long a call waits for them, in seconds up to 60"
    )
    fairness: Literal["time", "count"] = setting(
        one_of("time", "count"),
        "time",
        "'time' charges a job its worker-seconds, 'count' charges 1 per job",
    )
    lease_seconds: float = setting(
        number(0.1, 86_400),
        30.0,
        "length of a lease, renewed every third of it; seconds from 0.1 to 86400",
    )
    claim_ahead_seconds: float = setting(
        number(0, 60), 0.005, "claim a job ahead if it will start within this; seconds from 0 to 60"
    )
    max_deliveries: int | None = setting(
        FROM_ONE_OR_NONE,
        5,
        "deliveries after which a job becomes a dead letter, from 1; None: no limit",
    )
    history: int = setting(
        whole(0, 10_000),
        0,
        "finished jobs whose outcome and error are kept for operators, up to 10,000",
    )
    keep_failures: bool = setting(
        parsing.switch,
        OFF,
        "whether jobs that ended in an error become dead letters, for replay",
    )
    dead_letter_seconds: float | None = setting(
        number(0, optional=True),
        2_592_000.0,
        "how long a dead letter is kept, in seconds; None: for ever",
    )
    dead_letter_count: int | None = setting(
        COUNT, 10_000, "dead letters kept per workspace, the newest; None: all"
    )
    max_payload_bytes: int | None = setting(
        FROM_ONE_OR_NONE,
        16_777_216,
        "largest payload that a publish accepts, in bytes; None: no limit",
    )
    unknown_task_returns: int = setting(
        FROM_ZERO,
        360,
        "how often workers decline a job of an unknown task before it is dead, from 0",
    )
    on_lease_lost: Literal["abort", "continue"] = setting(
        one_of("abort", "continue"),
        "abort",
        "a running job that lost its lease: 'abort' it, or let it 'continue'",
    )
    metrics_bind: str | None = setting(
        parsing.address,
        None,
        '"host:port" where a worker serves metrics for Prometheus; None: nowhere',
    )
    metrics_workspaces: int = setting(
        whole(0, 1000), 20, "workspaces that have a label of their own in metrics, from 0 to 1000"
    )
    tracing: bool = setting(
        parsing.switch, OFF, "whether publishes and runs are spans of OpenTelemetry"
    )
    run_beat_schedule: bool = setting(
        parsing.switch,
        OFF,
        "whether Celery's workers publish beat_schedule, without celery beat",
    )
    limit_provider: str | None = setting(
        parsing.function, None, '"package.module:function" that returns the limits of a workspace'
    )

    def __init__(self, **explicit: Any) -> None:
        super().__init__(**{**problems.from_environment(self.fields), **explicit})

    @classmethod
    def load(cls, options: Mapping[str, Any] | None = None) -> Settings:
        """Validate options and ``FAIRQUEUE_*`` variables.

        Raises one ConfigurationError that names every setting that is wrong, and how to fix it.
        """
        explicit = dict(options or {})
        problems.refuse_unknown(explicit, list(cls.fields))
        return cls(**explicit)

    def conflicts(self) -> Iterator[str]:
        """Say which limits could not have their full effect."""
        for name, entry in self.workspaces.items():
            default = self.workspace_concurrency
            most = default if entry.concurrency is None else entry.concurrency
            if most is not None and entry.reserve is not None and entry.reserve > most:
                yield (
                    f"setting 'workspaces.{problems.shortened(name)}.reserve' is {entry.reserve}, "
                    f"above its concurrency of {most}: lower the reserve, or raise the concurrency"
                )
        if self.workspace_burst is not None and self.workspace_rate is None:
            yield (
                "setting 'workspace_burst' has no effect without rate: set 'workspace_rate', too"
            )

    def _of(self, scope: str) -> Limits:
        """Return the limits whose settings begin with a scope, such as ``workspace_rate``."""
        names = [of.name for of in fields(Limits)]
        return Limits(**{name: getattr(self, f"{scope}_{name}", None) for name in names})

    def stored_limits(self) -> StoredLimits:
        """Return the configured limits, to be stored beside the jobs."""
        return StoredLimits(
            default=self._of("workspace"),
            total=self._of("total"),
            workspaces={name: entry.limits() for name, entry in self.workspaces.items()},
            queues={name: entry.limits() for name, entry in self.queues.items()},
            tasks={name: entry.limits() for name, entry in self.tasks.items()},
            queue_default=self._of("queue"),
            default_workspace=self.default_workspace,
            fairness=self.fairness,
            enforced=self.enforce == "limits",
            provided=self.limit_provider is not None,
            dead_letter_seconds=self.dead_letter_seconds,
            dead_letter_count=self.dead_letter_count,
        )
