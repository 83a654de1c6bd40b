"""Native threads beside greenlets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from fairqueue import StoreUnavailable
from fairqueue._threads import BackgroundWriter
from tests.system.ledger import wait_for
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
"""
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


ended = []
with run_context(JobContext("j", "acme", 7, 1, "store", store=Store, task="shop.report")):
    for n in range(4):
        spawn(copy_context().run, step.run, f"step {n}", ended.append, n)
"""
BUFFER = """
import logging, sys, tempfile
from fairqueue import FairQueue


class Slow(logging.Handler):
    def emit(self, record):
        sleep(0.05)


logging.getLogger("fairqueue.buffer").addHandler(Slow())
settings = {"on_unavailable": "buffer", "buffer_path": tempfile.mkdtemp()}
queue = FairQueue("redis://127.0.0.1:1", **settings)
ended = []


def publish():
    queue.publish(b"", queue="q")
    ended.append(1)


for _ in range(4):
    spawn(publish)
"""
MEMORY = """
import sys
from fairqueue import FairQueue
from fairqueue._threads import start_native

queue = FairQueue("memory://gevent")
ended = []


def publish():
    for _ in range(100):
        queue.publish(b"", queue="q", workspace="w")
    ended.append(1)


for _ in range(2):
    start_native(publish, name="keeper")
    spawn(publish)
"""
ALL_END = """
for _ in range(200):
    if len(ended) == 4:
        sys.exit()
    sleep(0.05)
sys.exit(f"{len(ended)} of 4 ended")
"""
SCRIPTS = {"log": ALL_LOG, "steps": STEPS, "buffer": BUFFER, "memory": MEMORY}
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


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("library", PATCHED)
def test_greenlets_do_not_wait_for_ever(library: str, script: str) -> None:
    """Where they log or publish beside native threads, take steps at once, or meet an outage."""
    needs(library)
    run_script(PATCHED[library] + script + ALL_END)


DESCRIPTORS = """
import gc, os, socket
from fairqueue._threads import start_native

ended = []


def left():
    gc.collect()  # eventlet's hubs are in circles
    return len(os.listdir("/proc/self/fd")) + len(os.listdir("/proc/self/task"))


def talk():
    for end in socket.socketpair() if len(ended) % 2 else ():  # every second one is quiet
        end.settimeout(0.001)
        with end:
            try:
                end.recv(1)
            except TimeoutError:
                pass
    ended.append(1)


for n in range(40):
    start_native(talk, name="talk")
    while len(ended) <= n:
        sleep(0.01)
    if n == 9:
        sleep(0.5)
        before = left()
for _ in range(100):
    more = left() - before
    if more <= 3:
        sys.exit()
    sleep(0.1)
sys.exit(f"{more} descriptors and threads were left")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it counts in /proc")
@pytest.mark.parametrize("library", PATCHED)
def test_threads_that_have_ended_leave_nothing(library: str) -> None:
    """A patched call gives each thread a hub of its own, whose descriptors would stay."""
    needs(library)
    run_script(PATCHED[library] + "import sys" + DESCRIPTORS)


def run_script(script: str) -> None:
    """Play it in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_writer_that_cannot_be_opened_at_first() -> None:
    """The store may be away by then; what was added is kept until it is back."""
    written, fails = list[str](), iter([True, True, False])

    def opened() -> AbstractContextManager[Callable[[list[str]], object]]:
        if next(fails):
            raise StoreUnavailable("away")
        return nullcontext(written.extend)

    writer = BackgroundWriter[str]("test", opened, every_seconds=0.01, idle_rounds=3, most=9)
    writer.add("line")
    wait_for(lambda: written == ["line"], seconds=10)
    writer.flush()  # opens nothing, since nothing waits
