"""Checks the arguments of a publish, and makes the job."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fairqueue._context import current_workspace, running_job
from fairqueue._publish.missing_workspace import MissingWorkspace
from fairqueue._settings import Settings
from fairqueue._types import Admission, Job, Tick
from fairqueue._validation import (
    check_name,
    check_payload,
    check_priority,
    check_text,
    new_job_id,
    seconds_from_zero,
    seconds_of_delay,
)
from fairqueue.errors import ConfigurationError

WHILE_AWAY = ("raise", "buffer", "inline")
NOWHERE = "the argument workspace=… of the publish, and a surrounding fairqueue.workspace()"


@dataclass(slots=True)
class NewJob:
    """One job of a :meth:`FairQueue.publish_many`: the same arguments as those of ``publish``."""

    payload: bytes
    queue: str
    workspace: str | int | UUID | None = None
    task: str = ""
    priority: int = 0
    delay_seconds: float = 0.0
    job_id: str | None = None
    exempt: bool = False
    group: str | None = None
    parent_fence: int | None = None
    expires_seconds: float | None = None
    unique_key: str | None = None
    unique_for: float | None = None
    retry_of: int | None = None
    """The fence of the running job that this exempt one retries: it takes over its unique key."""
    other_id: str | None = None
    """The id that it gets where another job has ``job_id``, which is its framework's."""
    tick: Tick | None = None
    """The job is that of this tick of a schedule."""
    on_unavailable: str | None = None
    """What becomes of it while the store is away; None: as set. In a running job it raises."""


def checked(
    new: NewJob,
    settings: Settings,
    missing_workspace: MissingWorkspace,
    *,
    is_new: bool | None = None,
) -> tuple[Job, Admission]:
    """Return the job, and the rules for its publish; raises ConfigurationError.

    ``is_new``: whether the id was never sent before; None: if it is made here.
    """
    named = current_workspace() if new.workspace is None else new.workspace
    if named is None:
        missing_workspace.found_none(new.task, lambda: NOWHERE, must_publish=new.exempt)
    job = Job(
        id=check_text("job id", new.job_id) if new.job_id else new_job_id(),
        workspace=check_name("workspace", settings.default_workspace if named is None else named),
        queue=check_name("queue", new.queue),
        task=check_name("task", new.task) if new.task else "",
        payload=new.payload,
        priority=check_priority(new.priority),
        delay_seconds=seconds_of_delay(new.delay_seconds, must_take=new.exempt),
        expires_seconds=(
            None
            if new.expires_seconds is None
            else seconds_from_zero("expires_seconds", new.expires_seconds)
        ),
    )
    most = None if new.exempt else settings.max_payload_bytes
    check_payload(new.payload, most, task=job.task, workspace=job.workspace)
    key = None if new.unique_key is None else check_name("unique key", new.unique_key)
    unique_for = None if new.unique_for is None else _check_unique_for(new.unique_for, key)
    key = None if new.exempt else key  # a retry would find the job that it retries
    group = None if new.group is None else check_text("group", new.group)
    missing = named is None and missing_workspace.counts
    is_new = not new.job_id if is_new is None else is_new
    away = _on_unavailable(new, settings)
    return job, Admission(
        *(new.exempt, group, new.parent_fence, key, unique_for, missing),
        *(new.retry_of, new.tick, is_new, new.other_id, away),
    )


def check_on_unavailable(value: Any, settings: Settings) -> str:
    """Return what to do while the store is away; ConfigurationError if that cannot be done."""
    if value not in WHILE_AWAY:
        raise ConfigurationError(
            f"on_unavailable must be {', '.join(map(repr, WHILE_AWAY))}, not {value!r:.40}"
        )
    if value == "buffer" and settings.buffer_path is None:
        raise ConfigurationError(
            "on_unavailable='buffer' needs the setting 'buffer_path': a directory on a disk that "
            "outlives the process, such as /var/lib/shop/spool"
        )
    return str(value)


def _on_unavailable(new: NewJob, settings: Settings) -> str:
    """What depends on a lease or a tick, or is tried until the store answers, is not buffered."""
    asked = settings.on_unavailable if new.on_unavailable is None else new.on_unavailable
    if asked == "raise" or new.exempt or new.tick or running_job() is not None:
        return "raise"
    return check_on_unavailable(asked, settings)


def as_one_group(pairs: Sequence[tuple[Job, Admission]]) -> list[tuple[Job, Admission]]:
    """Return the jobs as one group; the same jobs are the same group again.

    The sign before its name says that the group is all jobs of the call.
    """
    ids = "\n".join(f"{job.queue} {job.id}" for job, _ in pairs)
    name = hashlib.blake2b(ids.encode(), digest_size=16).hexdigest()
    return [(job, admission._replace(group=f"={name}")) for job, admission in pairs]


def _check_unique_for(value: Any, key: str | None) -> float:
    if key is None:
        raise ConfigurationError("unique_for has no meaning without unique_key: give both")
    seconds = seconds_from_zero("unique_for", value)
    if seconds == 0:
        raise ConfigurationError(
            f"unique_for must be more than 0 seconds, not {value!r}: "
            "leave it out to hold the key until the job ends"
        )
    return seconds
