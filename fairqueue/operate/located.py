"""Finds the job that an operator names by its id alone."""

from __future__ import annotations

from fairqueue._stores.store import StoreBase
from fairqueue.errors import ConfigurationError
from fairqueue.explained import JobState
from fairqueue.rows import FoundJob

STATES = (JobState.WAITING, JobState.DEAD, JobState.ENDED)


def locate(
    store: StoreBase, job_id: str, *, workspace: str | None, queue: str | None
) -> FoundJob | None:
    """Return the job of this id; None: there is none.

    Where the workspace or the queue is not named, every workspace is asked, page by page. One that
    waits or runs counts before a dead one, and that before one that has ended. ConfigurationError:
    there are several.
    """
    if workspace is not None and queue is not None:
        return FoundJob(workspace, queue, job_id)
    found: dict[JobState, dict[tuple[str, str], FoundJob]] = {state: {} for state in STATES}
    for state, job in store.locate(job_id, workspace=workspace, queue=queue):
        found[state][job.workspace, job.queue] = job
    jobs = next((list(found[state].values()) for state in STATES if found[state]), [])
    if len(jobs) > 1:
        places = ", ".join(f"{job.workspace!r} on {job.queue!r}" for job in jobs[:5])
        raise ConfigurationError(
            f"there are {len(jobs)} jobs with the id {job_id!r} (of {places}): "
            "name the workspace and the queue as well"
        )
    return jobs[0] if jobs else None
