"""What a child does for a run, beside what Celery does: counted in calls of Python.

They are counted in a process of its own, run as this file: where greenlet is loaded, CPython 3.11
may spin for ever under a profiler.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import Any

from celery import Celery
from celery.app import trace

from fairqueue import current
from fairqueue_celery._channel.task_queues import METADATA
from fairqueue_celery._consume.shared_memory import deadlines, runs
from fairqueue_celery._worker import task

BODY = json.dumps([[], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
FENCES = itertools.count(4_000_000_001)
MOST = 8
"""Calls above Celery's own."""


def _work() -> None:
    """Do nothing."""


def _look() -> Any:
    job = current()
    return job and (job.workspace, job.task, runs.pid_of(job.fence) is not None)


def _run(app: Celery, name: str, lease: list[Any] | None) -> tuple[int, Any]:
    """Run the task as a child does; return how many calls that took, and its result."""
    of_name = app.tasks[name]
    of_name.__trace__ = trace.build_tracer(name, of_name, app.loader, "host", app=app)
    request = {"id": "i", "task": name, "properties": {METADATA: lease} if lease else {}}
    located = {name: of_name}, {"application/json"}, "host"
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    for _ in range(2):  # the first fills caches
        if lease:
            lease[2] = fence = next(FENCES)
            deadlines[fence] = 1e12
        calls = 0
        sys.setprofile(count)
        try:
            result = trace.fast_trace_task(
                name, "i", dict(request), BODY, "application/json", "utf-8", _loc=located
            )
        finally:
            sys.setprofile(None)
    return calls, result


def _measure() -> dict[str, Any]:
    app = Celery("runs", broker="fairqueue+memory://runs", set_as_current=False)
    app.conf.task_ignore_result = True
    app.task(name="work", shared=False)(_work)
    app.task(name="look", shared=False)(_look)
    app.finalize()
    stock, _ = _run(app, "work", None)
    task.follow_runs()
    task.mark_bodies(app)
    lease: list[Any] = ["j", "ada", 0, 1, "store", None]
    ours, _ = _run(app, "work", lease)
    _, (failed, result, _) = _run(app, "look", lease)
    return {
        "calls": ours,
        "of Celery": stock,
        "failed": failed,
        "result": result,
        "over": runs.is_over(lease[2]),
    }


def test_a_run_costs_a_child_few_calls() -> None:
    """It knows its job, and the main process that it has begun; no signal is sent for that."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, check=True, timeout=60)
    shown = json.loads(done.stdout)
    assert 0 < shown.pop("calls") - shown.pop("of Celery") <= MOST
    assert shown == {"failed": 0, "result": repr(("ada", "look", True)), "over": True}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measure()))
