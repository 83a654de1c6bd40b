"""Native threads beside greenlets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.system.needs import needs

ALL_LOG = """
import logging, sys
from fairqueue._threads import start_native


class Slow(logging.Handler):
    def emit(self, record):
        native_sleep(0.05)


log = logging.getLogger("slow")
log.addHandler(Slow())
ended = []


def run():
    for _ in range(5):
        log.warning("a line")
        sleep(0)
    ended.append(1)


for n in range(2):
    start_native(run, name=f"thread-{n}")
for _ in range(2):
    spawn(run)
for _ in range(200):
    if len(ended) == 4:
        sys.exit()
    sleep(0.05)
sys.exit(f"{len(ended)} of 4 ended")
"""
PATCHED = {
    "gevent": """
from gevent import monkey, sleep, spawn
monkey.patch_all()
native_sleep = monkey.get_original("time", "sleep")
""",
    "eventlet": """
import eventlet
from eventlet import sleep, spawn
eventlet.monkey_patch()
native_sleep = eventlet.patcher.original("time").sleep
""",
}


@pytest.mark.parametrize("library", PATCHED)
def test_native_threads_and_greenlets_may_log_at_once(library: str) -> None:
    """None is left waiting for ever: a thread may be the one that renews, a greenlet a task."""
    play(library, ALL_LOG)


STEPS = """
import sys
from contextvars import copy_context
from fairqueue import JobContext, step
from fairqueue.adapters import run_context


class Store:
    def steps(self, *of):
        sleep(0.01)
        return {}

    def note_step(self, *of, early):
        sleep(0.01)
        return of[-1]


ran = []
with run_context(JobContext("j", "acme", 7, 1, "store")) as job:
    job.store = Store
    for n in range(3):
        spawn(copy_context().run, step.run, f"step {n}", ran.append, n)
    sleep(1)
sys.exit(f"{ran} ran" if len(ran) < 3 or job.steps.counts["run"] < 3 else 0)
"""


@pytest.mark.parametrize("library", PATCHED)
def test_greenlets_of_a_task_may_have_steps_at_once(library: str) -> None:
    """One that waits for the store's reply lets the others wait, and does not block the process."""
    play(library, STEPS)


def play(library: str, script: str) -> None:
    """Run a script in a process that the library has patched."""
    needs(library)
    script = PATCHED[library] + script
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
