"""What is let in: capacity, groups admitted whole, ids that ended a moment ago."""

from __future__ import annotations

from fairqueue._fairness import retry_after
from fairqueue._stores.memory.lanes import depth_of, waiting_of
from fairqueue._stores.memory.limits import limits_of, limits_of_all, limits_of_queue
from fairqueue._stores.memory.state import Node, State, Workspace
from fairqueue._types import Admission, Job, Pause
from fairqueue.errors import CapacityExceeded

ENDED_WINDOW_SECONDS = 60  # a repeated publish of an ended id is known for at least this long
GROUP_WINDOW_SECONDS = 3600  # a group's jobs follow its first within this time of the last

Windows = dict[int, set[str]]


def _knows(s: State, windows: Windows, member: str, seconds: int) -> bool:
    window = int(s.now // seconds)
    return any(member in windows.get(w, ()) for w in (window, window - 1))


def _remember(s: State, windows: Windows, member: str, seconds: int) -> None:
    window = int(s.now // seconds)
    for old in [w for w in windows if w < window - 1]:
        del windows[old]
    windows.setdefault(window, set()).add(member)


def has_ended(s: State, job_id: str) -> bool:
    """This id was published, and its job has ended since."""
    return _knows(s, s.ended, job_id, ENDED_WINDOW_SECONDS)


def has_now_ended(s: State, job_id: str) -> None:
    """Remember an id whose job is gone."""
    _remember(s, s.ended, job_id, ENDED_WINDOW_SECONDS)


def admit(s: State, group: str) -> None:
    """Let the rest of this group pass."""
    _remember(s, s.groups, group, GROUP_WINDOW_SECONDS)


def is_admitted(s: State, admission: Admission) -> bool:
    """Passes whatever is full."""
    if admission.exempt or not admission.group:
        return admission.exempt
    return _knows(s, s.groups, admission.group, GROUP_WINDOW_SECONDS)


def refusal(s: State, ws: Workspace, job: Job) -> CapacityExceeded | None:
    """Why one more job is refused; None: there is room."""
    node = s.nodes.get(job.queue) or Node(job.queue)
    draining = s.pauses.get(("task", job.task)) is Pause.DRAINING
    places = (
        ("workspace", limits_of(s, ws).capacity, waiting_of(ws), ws),
        ("queue", limits_of_queue(s, job.queue).capacity, depth_of(s, job.queue), node),
        ("task", 0 if draining else None, 0, Node(job.queue)),
        ("total", limits_of_all(s).capacity, sum(depth_of(s, queue) for queue in s.jobs), node),
    )
    for scope, limit, waiting, place in places:
        if limit is not None and waiting >= limit:
            idle = s.now - place.drained if place.drained > 0 else None
            after = retry_after(waiting - limit + 1, place.pace, idle)
            return _refused(scope, limit, waiting, after, job)
    return None


def _refused(scope: str, limit: int, waiting: int, after: float, job: Job) -> CapacityExceeded:
    return CapacityExceeded(scope, limit, waiting, after, job.workspace, job.queue, job.task)
