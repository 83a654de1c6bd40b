"""The settings of fairqueue: the name, default and meaning of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from fairqueue._settings import parsing, problems
from fairqueue._settings.fields import ByName, Field, read
from fairqueue._settings.parsing import boolean, count, number, one_of, optional, resolved
from fairqueue._types import Limits, StoredLimits
from fairqueue._validation import check_app, check_name, check_namespace

_COUNT = optional(count(0))
_STARTS = optional(number(1, parsing.MOST))
_RATE = optional(parsing.rate)
_WORKSPACE = partial(check_name, "workspace")


_QUEUE = {
    "concurrency": Field(_COUNT, "largest number of its running jobs, from 0"),
    "capacity": Field(_COUNT, "largest number of its waiting jobs, from 0"),
}
_TOTAL = {
    **_QUEUE,
    "requests": Field(_COUNT, "largest number of web requests in flight, from 0"),
}
_PER_SECOND = Field(_RATE, 'largest number of starts per second, or as "100/m"; None: no limit')
_BURST = Field(_STARTS, "starts allowed at once after an idle time, from 1")

LIMITS: Mapping[str, Mapping[str, Field]] = {
    "workspace": {
        "concurrency": Field(
            _COUNT, "largest number of its running jobs, from 0; None: the default"
        ),
        "weight": Field(
            number(0.001, 1000),
            "its share relative to other workspaces, 0.001 to 1000",
            default=1.0,
        ),
        "capacity": Field(_COUNT, "largest number of its waiting jobs, from 0; None: the default"),
        "rate": _PER_SECOND,
        "burst": _BURST,
        "reserve": Field(_COUNT, "below this many running jobs it gets the next free slot, from 0"),
        "parent": Field(
            optional(_WORKSPACE), "name of the group whose weight and concurrency it shares"
        ),
        "requests": Field(
            _COUNT, "largest number of its web requests in flight, from 0; None: the default"
        ),
    },
    "task": {
        "concurrency": Field(
            _COUNT, "largest number of its running jobs in all workspaces together; None: no limit"
        ),
        "workspace_concurrency": Field(
            _COUNT, "largest number of its running jobs in each workspace; None: no limit"
        ),
        "rate": _PER_SECOND,
        "burst": _BURST,
        "workspace_rate": Field(
            _RATE, "largest number of its starts per second in each workspace; None: no limit"
        ),
        "workspace_burst": Field(_STARTS, "its starts allowed at once in each workspace, from 1"),
    },
    "queue": _QUEUE,
    "default": {**_TOTAL, "rate": _PER_SECOND, "burst": _BURST},
    "total": _TOTAL,
}
"""The limits that each kind of scope has."""


def limits_of(kind: str, options: Mapping[str, Any], path: str = "") -> Limits:
    """Read the limits of one scope; ConfigurationError names all that is wrong."""
    return Limits(**read(LIMITS[kind], options, path))


def _by_name(kind: str) -> Any:
    return ByName(kind, partial(limits_of, kind), f"limits per {kind} name")


def _word(words: tuple[str, ...], description: str) -> Any:
    """Declare a setting that is one of these words, by default the first."""
    return Field(one_of(*words), description, default=words[0])


def setting(read: parsing.Read, description: str, *, default: Any = None) -> Any:
    """Declare a setting."""
    return Field(read, description, default=default)


class Settings:
    """All settings by name. Immutable.

    :meth:`load` makes one. Explicit options take precedence over ``FAIRQUEUE_*`` environment
    variables. The reference is ``docs/settings.md``.
    """

    namespace: str = setting(
        check_namespace,
        "key prefix, printable, at most 100 bytes, without braces",
        default="fairqueue",
    )
    default_workspace: str = setting(
        _WORKSPACE, "workspace of jobs that name none, 1 to 200 bytes", default="default"
    )
    workspace_from: tuple[str | Callable[..., Any], ...] = setting(
        parsing.workspace_sources,
        'where a job says its workspace, such as "kwarg:tenant_id"',
        default=("header:workspace",),
    )
    on_missing_workspace: str = _word(
        ("warn", "reject", "default"),
        "a publish whose workspace is not found: 'warn' once per task, 'reject' it, "
        "or take the 'default' one",
    )
    app: str | None = setting(
        check_app, "name of the app whose tasks this worker runs; None: its framework's"
    )
    on_unknown_task: str = _word(
        ("warn", "reject", "ignore"),
        "a publish of a task that no living worker of its queue knows: 'warn' once, "
        "'reject' it with UnknownTask, or 'ignore' that",
    )
    workspace_concurrency: int | None = setting(
        _COUNT, "default concurrency per workspace: running jobs, from 0; None: no limit"
    )
    workspace_capacity: int | None = setting(
        _COUNT, "default capacity per workspace: waiting jobs, from 0; None: no limit"
    )
    workspace_rate: float | None = setting(
        _RATE, 'default rate per workspace: starts per second, or as "100/m"; None: no limit'
    )
    workspace_burst: float | None = setting(
        _STARTS, "default burst per workspace: starts at once after an idle time, from 1"
    )
    queue_capacity: int | None = setting(
        _COUNT, "default capacity per queue: waiting jobs, from 0; None: no limit"
    )
    total_capacity: int | None = setting(
        _COUNT, "largest number of waiting jobs in all, from 0; None: no limit"
    )
    total_concurrency: int | None = setting(
        _COUNT, "largest number of running jobs in all, from 0; None: no limit"
    )
    workspace_requests: int | None = setting(
        _COUNT, "default for web requests in flight per workspace, from 0; None: no limit"
    )
    total_requests: int | None = setting(
        _COUNT, "largest number of web requests in flight in all, from 0; None: no limit"
    )
    workspaces: Mapping[str, Limits] = _by_name("workspace")
    tasks: Mapping[str, Limits] = _by_name("task")
    queues: Mapping[str, Limits] = _by_name("queue")
    on_full: str = _word(
        ("reject", "block"),
        "at a full capacity: 'reject' a publish at once, or 'block' it first",
    )
    block_seconds: float = setting(
        number(0, 86_400, above=True),
        "how long 'block' waits for capacity, in seconds up to 86400",
        default=10.0,
    )
    on_unavailable: str = _word(
        ("raise", "buffer", "inline"),
        "a publish while the store is away: 'raise' an error, 'buffer' the job on disk "
        "until the store answers, or run it 'inline'",
    )
    buffer_path: Path | None = setting(
        optional(resolved), "directory for buffered jobs, on a disk that outlives the process"
    )
    buffer_jobs: int = setting(
        count(1), "largest number of jobs that one process buffers, from 1", default=10_000
    )
    enforce: str = _word(
        ("limits", "observe"),
        '"observe": only count what limits would block or reject',
    )
    shards: int = setting(
        count(1, 64), "number of shards, up to 64; default: of the servers in the URL", default=1
    )
    min_replicas: int = setting(
        count(0), "replicas that confirm each write before its call returns, from 0", default=0
    )
    replica_wait_seconds: float = setting(
        number(0, 60, above=True),
        "how long a call waits for them, in seconds up to 60",
        default=1.0,
    )
    fairness: str = _word(
        ("time", "count"),
        "'time' charges a job its worker-seconds, 'count' charges 1 per job",
    )
    lease_seconds: float = setting(
        number(0.1, 86_400),
        "length of a lease, renewed every third of it; seconds from 0.1 to 86400",
        default=30.0,
    )
    claim_ahead_seconds: float = setting(
        number(0, 60),
        "claim a job ahead if it will start within this; seconds from 0 to 60",
        default=0.005,
    )
    max_deliveries: int | None = setting(
        optional(count(1)),
        "deliveries after which a job becomes a dead letter, from 1; None: no limit",
        default=5,
    )
    history: int = setting(
        count(0, 10_000),
        "finished jobs whose outcome and error are kept for operators, up to 10,000",
        default=0,
    )
    keep_failures: bool = setting(
        boolean,
        "whether jobs that ended in an error become dead letters, for replay",
        default=False,
    )
    dead_letter_seconds: float | None = setting(
        optional(number(0)),
        "how long a dead letter is kept, in seconds; None: for ever",
        default=2_592_000.0,
    )
    dead_letter_count: int | None = setting(
        _COUNT, "dead letters kept per workspace, the newest; None: all", default=10_000
    )
    max_payload_bytes: int | None = setting(
        optional(count(1)),
        "largest payload that a publish accepts, in bytes; None: no limit",
        default=16_777_216,
    )
    unknown_task_returns: int = setting(
        count(0),
        "how often workers decline a job of an unknown task before it is dead, from 0",
        default=360,
    )
    on_lease_lost: str = _word(
        ("abort", "continue"),
        "a running job that lost its lease: 'abort' it, or let it 'continue'",
    )
    metrics_bind: str | None = setting(
        optional(parsing.address),
        '"host:port" where a worker serves metrics for Prometheus; None: nowhere',
    )
    metrics_workspaces: int = setting(
        count(0, 1000),
        "workspaces that have a label of their own in metrics, from 0 to 1000",
        default=20,
    )
    tracing: bool = setting(
        boolean, "whether publishes and runs are spans of OpenTelemetry", default=False
    )
    run_beat_schedule: bool = setting(
        boolean,
        "whether Celery's workers publish beat_schedule, without celery beat",
        default=False,
    )
    limit_provider: str | None = setting(
        optional(parsing.function),
        '"package.module:function" that returns the limits of a workspace',
    )

    model_fields: ClassVar[dict[str, Field]] = {
        name: of for name, of in [*vars().items()] if isinstance(of, Field)
    }
    given: Mapping[str, Any]
    """What was given, as it was given."""

    def __init__(self, /, **options: Any) -> None:
        """Read options and ``FAIRQUEUE_*`` variables.

        Raises one ConfigurationError that names every setting that is wrong, and how to fix it.
        """
        fields = self.model_fields
        given = {**problems.from_environment(fields), **options}
        defaults = {name: copy(of.default) for name, of in fields.items()}
        vars(self).update({**defaults, **read(fields, given)}, given=given)
        self._refuse_reserves()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings are immutable: {name} cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"settings are immutable: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        """Whether all have the same values, given or by default."""
        if not isinstance(other, Settings):
            return NotImplemented
        return {**vars(self), "given": None} == {**vars(other), "given": None}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Name what was given: a value might be a secret."""
        return f"<Settings of {', '.join(self.given) or 'defaults'}>"

    @classmethod
    def load(cls, options: Mapping[str, Any] | None = None) -> Settings:
        """Read options that are in a mapping."""
        return cls(**{str(name): value for name, value in (options or {}).items()})

    def _refuse_reserves(self) -> None:
        """Refuse a reserve above the concurrency: it could never be used in full."""
        wrong = []
        for name, limits in self.workspaces.items():
            own, reserve = limits.concurrency, limits.reserve
            most = self.workspace_concurrency if own is None else own
            if most is not None and reserve is not None and reserve > most:
                wrong.append(
                    f"setting 'workspaces.{problems.shortened(name)}.reserve' is {reserve}, above "
                    f"its concurrency of {most}: lower the reserve, or raise the concurrency"
                )
        problems.refuse(wrong)

    def _of(self, scope: str) -> Limits:
        """Return the limits whose settings begin with a scope, such as ``workspace_rate``."""
        names = [of.name for of in fields(Limits)]
        return Limits(**{name: getattr(self, f"{scope}_{name}", None) for name in names})

    def stored_limits(self) -> StoredLimits:
        """Return the configured limits, to be stored beside the jobs."""
        return StoredLimits(
            default=self._of("workspace"),
            total=self._of("total"),
            workspaces=self.workspaces,
            queues=self.queues,
            tasks=self.tasks,
            queue_default=self._of("queue"),
            default_workspace=self.default_workspace,
            fairness=self.fairness,
            enforced=self.enforce == "limits",
            provided=self.limit_provider is not None,
            dead_letter_seconds=self.dead_letter_seconds,
            dead_letter_count=self.dead_letter_count,
        )
