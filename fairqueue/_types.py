"""Frozen values that travel between rooms."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class Job:
    """One published message. ``id`` is unique to this publish; ``payload`` is never decoded."""

    id: str
    workspace: str
    queue: str
    task: str
    payload: bytes
    priority: int = 0
    delay_seconds: float = 0.0
    """Not before this many seconds from its publish, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How a publish is treated at a full workspace, queue or total, and on whose behalf."""

    exempt: bool = False
    """What the system itself must publish (retries, continuations) is never refused."""
    group: str | None = None
    """The first job of a group decides; once it is in, the rest of the group passes."""
    parent_fence: int | None = None
    """Refused with LeaseLost when the run that publishes no longer holds this fence."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one owner to run one job until it expires."""

    job: Job
    fence: int
    """Grows with every claim; guards writes of a stale run elsewhere."""
    deliveries: int
    """Starts counted so far, this one included."""
    redelivered: bool
    """The job was handed out before."""
    lease_seconds: float
    received_monotonic: float = field(default_factory=time.monotonic)
    """When this process sent the claim, by its own monotonic clock."""


class Ending(str, Enum):
    """What a claimer brings along about one of its leases."""

    ACK = "ack"
    """The job ended: it is gone, its slot is free."""
    ACK_EARLY = "early"
    """Do not redeliver; the job runs on and keeps its slot until ACK or expiry."""


@dataclass(frozen=True, slots=True)
class Finish:
    """One ending, with the worker-seconds used so far by the worker's monotonic clock."""

    fence: int
    ending: Ending = Ending.ACK
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one finish-and-claim call brought."""

    leases: tuple[Lease, ...]
    lost: frozenset[int]
    """Fences of finishes that changed nothing, since their lease was gone."""
    wait_seconds: float
    """When to claim again if no wake-up comes before."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one workspace, queue or total; None: not set here."""

    concurrency: int | None = None
    """Jobs running at once; 0: none may start."""
    capacity: int | None = None
    """Jobs waiting, scheduled included."""
    weight: float | None = None
    """Share of worker-seconds relative to the others (1.0)."""
    rate: float | None = None
    """Starts per second."""
    burst: float | None = None
    """Starts at once after a quiet time."""


@dataclass(frozen=True, slots=True)
class StoredLimits:
    """What a process brings as its configuration, to be stored beside the jobs."""

    default: Limits = field(default_factory=Limits)
    total: Limits = field(default_factory=Limits)
    workspaces: Mapping[str, Limits] = field(default_factory=dict)
    queues: Mapping[str, Limits] = field(default_factory=dict)
    queue_default: Limits = field(default_factory=Limits)
    """For a queue that is not named in ``queues`` (the setting ``queue_capacity``)."""
    default_workspace: str = "default"
    """Not under the default limits, unless it is named in ``workspaces``."""
    fairness: str = "time"


@dataclass(frozen=True, slots=True)
class WorkspaceStats:
    """One workspace as it stands, derived from the structures."""

    workspace: str
    waiting: int
    scheduled: int
    running: int
    limit: int | None
    oldest_wait_seconds: float | None
    dead: int
    lost: int
    """Early-acked jobs whose worker died: not run again, as their user chose."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The whole store as it stands."""

    workspaces: tuple[WorkspaceStats, ...]
    queues: Mapping[str, int]
    """Waiting (scheduled included) per queue."""
