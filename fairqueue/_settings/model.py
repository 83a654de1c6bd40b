"""The settings of fairqueue as one validated model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fairqueue._settings import parsing, problems
from fairqueue._types import Limits, StoredLimits
from fairqueue._validation import check_app, check_name, check_namespace
from fairqueue.errors import ConfigurationError

MOST = 2_000_000_000
"""The largest count; Lua and JSON represent it exactly."""

Number = BeforeValidator(parsing.number_or_none)
FromZero = Annotated[int, Field(ge=0, le=MOST)]
FromOne = Annotated[int, Field(ge=1, le=MOST)]
PerSecond = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[FromZero | None, Number]
Starts = Annotated[Annotated[float, Field(ge=1, le=MOST)] | None, Number]
Rate = Annotated[PerSecond | None, BeforeValidator(parsing.rate)]
Weight = Annotated[float, Number, Field(ge=0.001, le=1000, allow_inf_nan=False)]
Seconds = Annotated[float, Number, Field(allow_inf_nan=False)]
TaskName = Annotated[str, BeforeValidator(lambda name: check_name("task", name))]
WorkspaceName = Annotated[str, BeforeValidator(lambda name: check_name("workspace", name))]
QueueName = Annotated[str, BeforeValidator(lambda name: check_name("queue", name))]
ByName = BeforeValidator(parsing.mapping)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="after")
    def _burst_needs_rate(self) -> _Entry:
        for of in ("", "workspace_"):
            burst, rate = f"{of}burst", f"{of}rate"
            if getattr(self, burst, None) is not None and getattr(self, rate, None) is None:
                raise ValueError(f"{burst} has no effect without {rate}: set {rate}, too")
        return self

    def limits(self) -> Limits:
        """Return these settings as limits for the store; a weight only if it was given."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        if "weight" not in self.model_fields_set:
            given.pop("weight", None)
        return Limits(**given)


class WorkspaceSettings(_Entry):
    """Limits of one workspace; None means the default limit."""

    concurrency: Count = Field(
        None, description="largest number of its running jobs, from 0; None: the default"
    )
    weight: Weight = Field(1.0, description="its share relative to other workspaces, 0.001 to 1000")
    capacity: Count = Field(
        None, description="largest number of its waiting jobs, from 0; None: the default"
    )
    rate: Rate = Field(
        None, description='largest number of starts per second, or as "100/m"; None: no limit'
    )
    burst: Starts = Field(None, description="starts allowed at once after an idle time, from 1")
    reserve: Count = Field(
        None, description="below this many running jobs it gets the next free slot, from 0"
    )
    parent: Annotated[WorkspaceName | None, Number] = Field(
        None, description="name of the group whose weight and concurrency it shares"
    )
    requests: Count = Field(
        None, description="largest number of its web requests in flight, from 0; None: the default"
    )


class TaskSettings(_Entry):
    """Limits of one task."""

    concurrency: Count = Field(
        None,
        description="largest number of its running jobs in all workspaces together; None: no limit",
    )
    workspace_concurrency: Count = Field(
        None, description="largest number of its running jobs in each workspace; None: no limit"
    )
    rate: Rate = Field(
        None, description='largest number of starts per second, or as "100/m"; None: no limit'
    )
    burst: Starts = Field(None, description="starts allowed at once after an idle time, from 1")
    workspace_rate: Rate = Field(
        None,
        description="largest number of its starts per second in each workspace; None: no limit",
    )
    workspace_burst: Starts = Field(
        None, description="its starts allowed at once in each workspace, from 1"
    )


class QueueSettings(_Entry):
    """Limits of one queue."""

    concurrency: Count = Field(None, description="largest number of its running jobs, from 0")
    capacity: Count = Field(None, description="largest number of its waiting jobs, from 0")


class TotalSettings(QueueSettings):
    """Live limits of everything together."""

    requests: Count = Field(None, description="largest number of web requests in flight, from 0")


class DefaultSettings(TotalSettings):
    """Limits of each workspace that has none of its own."""

    rate: Rate = Field(None, description='largest number of starts per second, or as "100/m"')
    burst: Starts = Field(None, description="starts allowed at once after an idle time, from 1")


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
    unknown = [name for name in limits if name not in of.model_fields]
    if unknown:
        known = ", ".join(of.model_fields)
        raise ConfigurationError(f"unknown limit {unknown[0]!r}; known: {known}")
    try:
        return of(**limits).limits()
    except ValidationError as error:
        raise problems.explain(error, of) from None


class Settings(BaseModel):
    """All settings by name. Immutable.

    :meth:`load` makes one. Explicit options take precedence over ``FAIRQUEUE_*`` environment
    variables. The reference is ``docs/settings.md``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    namespace: Annotated[str, BeforeValidator(check_namespace)] = Field(
        "fairqueue", description="key prefix, printable, at most 100 bytes, without braces"
    )
    default_workspace: WorkspaceName = Field(
        "default", description="workspace of jobs that name none, 1 to 200 bytes"
    )
    workspace_from: Annotated[
        tuple[str | Callable[..., Any], ...],
        BeforeValidator(parsing.workspace_sources),
    ] = Field(
        ("header:workspace",),
        description='where a job says its workspace, such as "kwarg:tenant_id"',
    )
    on_missing_workspace: Literal["warn", "reject", "default"] = Field(
        "warn",
        description="a publish whose workspace is not found: 'warn' once per task, 'reject' it, "
        "or take the 'default' one",
    )
    app: Annotated[str | None, BeforeValidator(check_app)] = Field(
        None, description="name of the app whose tasks this worker runs; None: its framework's"
    )
    on_unknown_task: Literal["warn", "reject", "ignore"] = Field(
        "warn",
        description="a publish of a task that no living worker of its queue knows: 'warn' once, "
        "'reject' it with UnknownTask, or 'ignore' that",
    )
    workspace_concurrency: Count = Field(
        None, description="default concurrency per workspace: running jobs, from 0; None: no limit"
    )
    workspace_capacity: Count = Field(
        None, description="default capacity per workspace: waiting jobs, from 0; None: no limit"
    )
    workspace_rate: Rate = Field(
        None,
        description='default rate per workspace: starts per second, or as "100/m"; None: no limit',
    )
    workspace_burst: Starts = Field(
        None, description="default burst per workspace: starts at once after an idle time, from 1"
    )
    queue_capacity: Count = Field(
        None, description="default capacity per queue: waiting jobs, from 0; None: no limit"
    )
    total_capacity: Count = Field(
        None, description="largest number of waiting jobs in all, from 0; None: no limit"
    )
    total_concurrency: Count = Field(
        None, description="largest number of running jobs in all, from 0; None: no limit"
    )
    workspace_requests: Count = Field(
        None, description="default for web requests in flight per workspace, from 0; None: no limit"
    )
    total_requests: Count = Field(
        None, description="largest number of web requests in flight in all, from 0; None: no limit"
    )
    workspaces: Annotated[dict[WorkspaceName, WorkspaceSettings], ByName] = Field(
        default_factory=dict, description="limits per workspace name"
    )
    tasks: Annotated[dict[TaskName, TaskSettings], ByName] = Field(
        default_factory=dict, description="limits per task name"
    )
    queues: Annotated[dict[QueueName, QueueSettings], ByName] = Field(
        default_factory=dict, description="limits per queue name"
    )
    on_full: Literal["reject", "block"] = Field(
        "reject", description="at a full capacity: 'reject' a publish at once, or 'block' it first"
    )
    block_seconds: Annotated[Seconds, Field(gt=0, le=86_400)] = Field(
        10.0, description="how long 'block' waits for capacity, in seconds up to 86400"
    )
    on_unavailable: Literal["raise", "buffer", "inline"] = Field(
        "raise",
        description="a publish while the store is away: 'raise' an error, 'buffer' the job on disk "
        "until the store answers, or run it 'inline'",
    )
    buffer_path: Annotated[Path | None, Number] = Field(
        None, description="directory for buffered jobs, on a disk that outlives the process"
    )
    buffer_jobs: Annotated[FromOne, Number] = Field(
        10_000, description="largest number of jobs that one process buffers, from 1"
    )
    enforce: Literal["limits", "observe"] = Field(
        "limits", description='"observe": only count what limits would block or reject'
    )
    shards: Annotated[int, Number, Field(ge=1, le=64)] = Field(
        1, description="number of shards, up to 64; default: of the servers in the URL"
    )
    min_replicas: Annotated[FromZero, Number] = Field(
        0, description="replicas that confirm each write before its call returns, from 0"
    )
    replica_wait_seconds: Annotated[Seconds, Field(gt=0, le=60)] = Field(
        1.0, description="how long a call waits for them, in seconds up to 60"
    )
    fairness: Literal["time", "count"] = Field(
        "time", description="'time' charges a job its worker-seconds, 'count' charges 1 per job"
    )
    lease_seconds: Annotated[Seconds, Field(ge=0.1, le=86_400)] = Field(
        30.0, description="length of a lease, renewed every third of it; seconds from 0.1 to 86400"
    )
    claim_ahead_seconds: Annotated[Seconds, Field(ge=0, le=60)] = Field(
        0.005, description="claim a job ahead if it will start within this; seconds from 0 to 60"
    )
    max_deliveries: Annotated[FromOne | None, Number] = Field(
        5, description="deliveries after which a job becomes a dead letter, from 1; None: no limit"
    )
    history: Annotated[int, Number, Field(ge=0, le=10_000)] = Field(
        0, description="finished jobs whose outcome and error are kept for operators, up to 10,000"
    )
    keep_failures: bool = Field(
        default=False,
        description="whether jobs that ended in an error become dead letters, for replay",
    )
    dead_letter_seconds: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Number
    ] = Field(2_592_000.0, description="how long a dead letter is kept, in seconds; None: for ever")
    dead_letter_count: Annotated[FromZero | None, Number] = Field(
        10_000, description="dead letters kept per workspace, the newest; None: all"
    )
    max_payload_bytes: Annotated[FromOne | None, Number] = Field(
        16_777_216, description="largest payload that a publish accepts, in bytes; None: no limit"
    )
    unknown_task_returns: Annotated[FromZero, Number] = Field(
        360,
        description="how often workers decline a job of an unknown task before it is dead, from 0",
    )
    on_lease_lost: Literal["abort", "continue"] = Field(
        "abort", description="a running job that lost its lease: 'abort' it, or let it 'continue'"
    )
    metrics_bind: Annotated[str | None, BeforeValidator(parsing.address)] = Field(
        None, description='"host:port" where a worker serves metrics for Prometheus; None: nowhere'
    )
    metrics_workspaces: Annotated[int, Number, Field(ge=0, le=1000)] = Field(
        20, description="workspaces that have a label of their own in metrics, from 0 to 1000"
    )
    tracing: bool = Field(
        default=False, description="whether publishes and runs are spans of OpenTelemetry"
    )
    run_beat_schedule: bool = Field(
        default=False,
        description="whether Celery's workers publish beat_schedule, without celery beat",
    )
    limit_provider: Annotated[str | None, BeforeValidator(parsing.function)] = Field(
        None, description='"package.module:function" that returns the limits of a workspace'
    )

    @model_validator(mode="before")
    @classmethod
    def _with_the_environment(cls, explicit: dict[str, Any]) -> dict[str, Any]:
        return {**problems.from_environment(cls.model_fields), **explicit}

    @classmethod
    def load(cls, options: Mapping[str, Any] | None = None) -> Settings:
        """Validate options and ``FAIRQUEUE_*`` variables.

        Raises one ConfigurationError that names every setting that is wrong, and how to fix it.
        """
        explicit = dict(options or {})
        problems.refuse_unknown(explicit, cls)
        try:
            settings = cls(**explicit)
        except ValidationError as error:
            raise problems.explain(error, cls) from None
        problems.refuse_reserves(settings)
        problems.refuse_burst(settings)
        return settings

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
