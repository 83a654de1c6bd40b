"""Settings: every option of fairqueue, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fairqueue import _refusals, _values
from fairqueue._names import check_name, check_namespace
from fairqueue._types import Limits, StoredLimits
from fairqueue.errors import ConfigurationError

MOST = 2_000_000_000
"""Counts stay far inside the whole numbers that Lua and JSON keep exactly."""

Number = BeforeValidator(_values.number_or_none)
FromZero = Annotated[int, Field(ge=0, le=MOST)]
FromOne = Annotated[int, Field(ge=1, le=MOST)]
PerSecond = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[FromZero | None, Number]
Starts = Annotated[Annotated[float, Field(ge=1, le=MOST)] | None, Number]
Rate = Annotated[PerSecond | None, BeforeValidator(_values.rate)]
Weight = Annotated[float, Number, Field(ge=0.001, le=1000, allow_inf_nan=False)]
Seconds = Annotated[float, Number, Field(allow_inf_nan=False)]
TaskName = Annotated[str, BeforeValidator(lambda name: check_name("task", name))]
WorkspaceName = Annotated[str, BeforeValidator(lambda name: check_name("workspace", name))]
QueueName = Annotated[str, BeforeValidator(lambda name: check_name("queue", name))]
ByName = BeforeValidator(_values.mapping)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _burst_needs_rate(self) -> _Entry:
        if getattr(self, "burst", None) is not None and getattr(self, "rate", None) is None:
            raise ValueError("burst has no meaning without rate: set rate too")
        return self


class WorkspaceSettings(_Entry):
    """Limits of one workspace; what is None falls back to the defaults."""

    concurrency: Count = Field(None, description="its jobs running at once, from 0; None: default")
    weight: Weight = Field(1.0, description="its share relative to the others, 0.001 to 1000")
    capacity: Count = Field(None, description="its jobs waiting at most, from 0; None: default")
    rate: Rate = Field(None, description='starts per second, or as "100/m"; None: no limit')
    burst: Starts = Field(None, description="starts at once after a quiet time, from 1")
    reserve: Count = Field(
        None, description="while fewer of its jobs run, its next one starts before others'"
    )
    parent: Annotated[WorkspaceName | None, Number] = Field(
        None, description="the group whose weight and concurrency it shares, by its name here"
    )

    def limits(self) -> Limits:
        """What the store keeps of this entry."""
        weight = self.weight if "weight" in self.model_fields_set else None
        return Limits(
            concurrency=self.concurrency,
            capacity=self.capacity,
            weight=weight,
            rate=self.rate,
            burst=self.burst,
            reserve=self.reserve,
            parent=self.parent,
        )


class TaskSettings(_Entry):
    """Limits of one task."""

    concurrency: Count = Field(
        None, description="its jobs running at once, all workspaces together; None: no limit"
    )
    workspace_concurrency: Count = Field(
        None, description="its jobs running at once in each workspace, from 0; None: no limit"
    )
    rate: Rate = Field(None, description='starts per second, or as "100/m"; None: no limit')
    burst: Starts = Field(None, description="starts at once after a quiet time, from 1")

    def limits(self) -> Limits:
        """What the store keeps of this entry."""
        return Limits(
            concurrency=self.concurrency,
            workspace_concurrency=self.workspace_concurrency,
            rate=self.rate,
            burst=self.burst,
        )


class QueueSettings(_Entry):
    """Limits of one queue."""

    concurrency: Count = Field(None, description="its jobs running at once, from 0")
    capacity: Count = Field(None, description="its jobs waiting at most, from 0")

    def limits(self) -> Limits:
        """What the store keeps of this entry."""
        return Limits(concurrency=self.concurrency, capacity=self.capacity)


def live_limits(
    limits: Mapping[str, Any], of: type[WorkspaceSettings | TaskSettings | QueueSettings]
) -> Limits:
    """Validate limits that are set live; ConfigurationError names what is wrong."""
    asked = [name for name in limits if name not in of.model_fields]
    if asked:
        known = ", ".join(of.model_fields)
        raise ConfigurationError(f"unknown limit {asked[0]!r}; known: {known}")
    try:
        return of(**limits).limits()
    except ValidationError as error:
        raise _refusals.explain(error, of) from None


class Settings(BaseSettings):
    """Every option by name; explicit ones beat ``FAIRQUEUE_*`` variables. Immutable.

    Make one with :meth:`load`, which raises ConfigurationError with a remedy.
    """

    model_config = SettingsConfigDict(
        env_prefix=_refusals.ENV_PREFIX, extra="forbid", frozen=True, env_ignore_empty=True
    )

    namespace: Annotated[str, BeforeValidator(check_namespace)] = Field(
        "fairqueue", description="key prefix, printable, at most 100 bytes, without braces"
    )
    default_workspace: WorkspaceName = Field(
        "default", description="workspace of a job that names none, 1 to 200 bytes"
    )
    workspace_from: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(_values.workspace_sources)
    ] = Field(
        ("header:workspace",), description='where the workspace is, such as "kwarg:tenant_id"'
    )
    workspace_concurrency: Count = Field(
        None, description="default jobs running at once per workspace, from 0; None: no limit"
    )
    workspace_capacity: Count = Field(
        None, description="default jobs waiting per workspace, from 0; None: no limit"
    )
    queue_capacity: Count = Field(
        None, description="default jobs waiting per queue, from 0; None: no limit"
    )
    total_capacity: Count = Field(None, description="jobs waiting in all, from 0; None: no limit")
    total_concurrency: Count = Field(
        None, description="jobs running in all, from 0; None: no limit"
    )
    workspaces: Annotated[dict[WorkspaceName, WorkspaceSettings], NoDecode, ByName] = Field(
        default_factory=dict, description="limits per workspace name"
    )
    tasks: Annotated[dict[TaskName, TaskSettings], NoDecode, ByName] = Field(
        default_factory=dict, description="limits per task name"
    )
    queues: Annotated[dict[QueueName, QueueSettings], NoDecode, ByName] = Field(
        default_factory=dict, description="limits per queue name"
    )
    on_full: Literal["reject", "block"] = Field(
        "reject", description="'reject' refuses at once, 'block' waits for room first"
    )
    block_seconds: Annotated[Seconds, Field(gt=0, le=86_400)] = Field(
        10.0, description="how long 'block' waits before it refuses; seconds up to 86400"
    )
    enforce: Literal["limits", "observe"] = Field(
        "limits", description='"observe": count what limits would hold or refuse, and let it pass'
    )
    shards: Annotated[int, Number, Field(ge=1, le=1024)] = Field(1, description="shards")
    min_replicas: Annotated[int, Number, Field(ge=0)] = Field(0, description="replicas to wait for")
    fairness: Literal["time", "count"] = Field(
        "time", description="'time' charges worker-seconds, 'count' charges 1 per job"
    )
    lease_seconds: Annotated[Seconds, Field(ge=0.1, le=86_400)] = Field(
        30.0, description="lease, renewed every third of it; seconds from 0.1 to 86400"
    )
    claim_ahead_seconds: Annotated[Seconds, Field(ge=0, le=60)] = Field(
        0.005, description="claim ahead what starts within this; seconds from 0 to 60"
    )
    max_deliveries: Annotated[FromOne | None, Number] = Field(
        5, description="starts before a job is dead, from 1; None: no bound"
    )
    dead_letter_seconds: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Number
    ] = Field(2_592_000.0, description="how long a dead letter is kept, in seconds; None: no bound")
    dead_letter_count: Annotated[FromZero | None, Number] = Field(
        10_000, description="dead letters kept per workspace, the youngest; None: no bound"
    )
    unknown_task_returns: Annotated[FromZero, Number] = Field(
        360, description="times that workers send away a job whose task they do not know, from 0"
    )
    on_lease_lost: Literal["abort", "continue"] = Field(
        "abort", description="what happens to a job whose lease is lost"
    )
    limit_provider: Annotated[str | None, BeforeValidator(_values.function)] = Field(
        None, description='"package.module:function" that is asked for a workspace\'s limits'
    )

    @classmethod
    def load(cls, options: Mapping[str, Any] | None = None) -> Settings:
        """Validate options over ``FAIRQUEUE_*``; raise ConfigurationError naming what is wrong."""
        explicit = dict(options or {})
        _refusals.refuse_unknown(explicit, cls)
        try:
            settings = cls(**explicit)
        except ValidationError as error:
            raise _refusals.explain(error, cls) from None
        _refusals.refuse_unsupported(settings)
        _refusals.refuse_reserves(settings)
        return settings

    def stored_limits(self) -> StoredLimits:
        """What a process brings as its configuration, to be stored beside the jobs."""
        return StoredLimits(
            default=Limits(
                concurrency=self.workspace_concurrency, capacity=self.workspace_capacity
            ),
            total=Limits(concurrency=self.total_concurrency, capacity=self.total_capacity),
            workspaces={name: entry.limits() for name, entry in self.workspaces.items()},
            queues={name: entry.limits() for name, entry in self.queues.items()},
            tasks={name: entry.limits() for name, entry in self.tasks.items()},
            queue_default=Limits(capacity=self.queue_capacity),
            default_workspace=self.default_workspace,
            fairness=self.fairness,
            enforced=self.enforce == "limits",
            provided=self.limit_provider is not None,
            dead_letter_seconds=self.dead_letter_seconds,
            dead_letter_count=self.dead_letter_count,
        )
