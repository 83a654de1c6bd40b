"""What a job is expected to cost, in worker-seconds."""

from __future__ import annotations

from fairqueue import _fairness as fair
from fairqueue._stores.memory.limits import limits_of
from fairqueue._stores.memory.order import head_of
from fairqueue._stores.memory.state import Flow, State, Workspace

MEANS_KEPT = 16  # tasks whose average a workspace keeps


def average_of(s: State, task: str) -> float:
    """The task's average over all workspaces, else the average of all tasks."""
    total, count = s.all_means
    return s.means.get(task, total / count if count else 0.0)


def expected(s: State, ws: Workspace, task: str) -> float:
    """Worker-seconds that a job of this task is expected to take there; 0: not known."""
    own = ws.means.get(task)
    return average_of(s, task) if own is None else max(own, fair.FLOOR_SECONDS)


def learn(s: State, ws: Workspace, task: str, seconds: float) -> None:
    """Feed the averages with one job's worker-seconds."""
    ws.means[task] = fair.mean_after(ws.means.get(task), seconds)
    if len(ws.means) > MEANS_KEPT:
        del ws.means[next(iter(ws.means))]
    s.means[task] = fair.mean_after(s.means.get(task), seconds)
    s.all_means = s.all_means[0] + seconds, s.all_means[1] + 1


def cost_of(s: State, ws: Workspace, flow: Flow) -> float:
    """What the next job of this flow is charged when it starts."""
    if limits_of(s, ws).count:
        return 1.0
    task = flow.first().job.task
    if task in ws.means:
        return max(ws.means[task], fair.FLOOR_SECONDS)
    head = head_of(s, flow.up)
    return fair.guessed_cost(average_of(s, task), head[1].cost if head else None)
