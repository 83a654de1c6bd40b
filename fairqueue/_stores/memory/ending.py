"""How a job ends. Each true-up is worker-seconds minus what was charged."""

from __future__ import annotations

from collections.abc import Iterable

from fairqueue import _fairness as fair
from fairqueue._stores.memory.admit import has_now_ended
from fairqueue._stores.memory.lease import drop
from fairqueue._stores.memory.limits import limits_of
from fairqueue._stores.memory.means import learn
from fairqueue._stores.memory.order import charge
from fairqueue._stores.memory.settle import settle
from fairqueue._stores.memory.state import Held, State, Workspace
from fairqueue._types import Ending, Finish


def gone(s: State, held: Held) -> None:
    """Forget a job; its id is remembered for a while."""
    job = held.record.job
    s.jobs[job.queue].pop(job.id, None)
    if not s.jobs[job.queue]:
        del s.jobs[job.queue]
    has_now_ended(s, job.id)


def used(s: State, held: Held, seconds: float) -> float:
    """Worker-seconds, which cannot exceed the time that the lease was held."""
    return fair.worker_seconds(seconds, s.now - held.claimed)


def true_up(s: State, ws: Workspace, held: Held, seconds: float) -> None:
    """Charge what was used; where jobs are counted, all or nothing."""
    if limits_of(s, ws).count:
        seconds = held.charged if seconds else 0.0
    charge(s, ws, (held.record.job.queue, held.place), seconds - held.charged)


def _finish(s: State, fence: int, seconds: float) -> bool:
    held = drop(s, fence)
    if held is None:
        return False
    job = held.record.job
    ws, seconds = s.workspace(job.workspace), used(s, held, seconds)
    gone(s, held)
    learn(s, ws, job.task, seconds)
    true_up(s, ws, held, max(seconds, fair.FLOOR_SECONDS))
    settle(s, ws)
    return True


def _finish_early(s: State, fence: int) -> bool:
    if fence not in s.leases:
        return False
    s.leases[fence].early = True
    return True


def _finish_one(s: State, finish: Finish) -> bool:
    if finish.ending is Ending.ACK:
        return _finish(s, finish.fence, finish.seconds)
    return _finish_early(s, finish.fence)


def finish_all(s: State, finishes: Iterable[Finish]) -> frozenset[int]:
    """Carry out what a claimer brings; return the fences that were lost."""
    return frozenset([f.fence for f in finishes if not _finish_one(s, f)])
