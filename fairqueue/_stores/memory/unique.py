"""Idempotency keys of a workspace and task: one publish at a time counts under each."""

from __future__ import annotations

from fairqueue._stores.memory.state import State
from fairqueue._types import Admission, Job

Key = tuple[str, str, str]


def key_of(job: Job, admission: Admission) -> Key | None:
    """What the publish is unique by, if it is."""
    if admission.unique_key is None or admission.exempt:
        return None
    return job.workspace, job.task, admission.unique_key


def holder(s: State, key: Key) -> tuple[str | None, bool]:
    """The job that holds the key, if one does; and whether the one that held it is dead."""
    if key not in s.unique:
        return None, False
    queue, job_id, until = s.unique[key]
    alive = job_id in s.jobs.get(queue, {})
    if not alive and job_id in s.dead.get(key[0], {}):
        return None, True
    counts = alive if until is None else s.now < until
    return (job_id if counts else None), False


def take_key(s: State, key: Key, job: Job, seconds: float | None) -> None:
    """This job holds the key from now on."""
    s.unique[key] = job.queue, job.id, None if seconds is None else s.now + seconds


def release_key(s: State, job: Job) -> None:
    """A job that was cancelled or purged blocks no key."""
    for key in [key for key, held in s.unique.items() if held[:2] == (job.queue, job.id)]:
        del s.unique[key]
