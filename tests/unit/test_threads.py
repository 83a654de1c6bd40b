"""Native threads beside greenlets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from fairqueue import StoreUnavailable
from fairqueue._background import BackgroundWriter
from tests.out_of_threads import out_of_threads
from tests.scripts import failure_of
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
LOGGERS = """
import logging, sys
from fairqueue._threads import start_native

ended = []


def hold():
    with logging._lock:  # as where a level is looked up
        native_sleep(0.3)
    ended.append(1)


def find(name):
    logging.getLogger(name)
    ended.append(1)


for n in range(2):
    start_native(hold, name=f"thread-{n}")
native_sleep(0.1)
for n in range(2):
    spawn(find, f"greenlet.{n}")
"""
STEPS = """
import sys
import threading
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
import threading
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
SCRIPTS = {"log": ALL_LOG, "loggers": LOGGERS, "steps": STEPS, "buffer": BUFFER, "memory": MEMORY}
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
    assert not failure_of(PATCHED[library] + script + ALL_END)


IMPORTS = """
import os, sys
from fairqueue import FairQueue

queue = FairQueue("memory://imports")
os.environ.pop("LOGNAME", None)  # as in many containers
os.environ.pop("USER", None)
imported = []
sys.addaudithook(lambda event, of: imported.append(of[0]) if event == "import" else None)
queue.publish(b"", queue="q", workspace="w")
sys.exit(f"imported {imported}" if imported else None)
"""


def test_a_first_call_imports_nothing() -> None:
    """A greenlet and a native thread that wait for one import wait for ever."""
    assert not failure_of(IMPORTS)


DESCRIPTORS = """
import os, socket, sys
from contextlib import contextmanager
from fairqueue._background import BackgroundWriter

ended = []


@contextmanager
def opened():
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(0.001)
        yield talk_to(one)


def talk_to(end):
    def talk(items):
        try:
            end.recv(1)
        except TimeoutError:
            ended.extend(items)
    return talk


sleep(0)  # as in a worker, this thread has its hub first
writer = BackgroundWriter("test", opened, every_seconds=0.01, idle_rounds=1, most=9)
for n in range(20):
    writer.add(n)
    while len(ended) <= n:
        sleep(0.01)
    if n == 1:
        before = len(os.listdir("/proc/self/fd"))
    sleep(0.1)
more = len(os.listdir("/proc/self/fd")) - before
sys.exit(f"{more} descriptors were left" if more > 6 else None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it counts in /proc")
@pytest.mark.parametrize("library", PATCHED)
def test_a_writer_leaves_no_descriptors_however_often_it_has_nothing_to_write(library: str) -> None:
    """A patched call gives each native thread a hub, which outlives it."""
    needs(library)
    assert not failure_of(PATCHED[library] + DESCRIPTORS)


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


def test_a_writers_thread_that_could_not_be_started() -> None:
    """A system may be out of threads for a moment: the next item starts one, which writes both."""
    written = list[str]()

    def opened() -> AbstractContextManager[Callable[[list[str]], object]]:
        return nullcontext(written.extend)

    writer = BackgroundWriter[str]("test", opened, every_seconds=0.01, idle_rounds=3, most=9)
    with out_of_threads(), pytest.raises(RuntimeError):
        writer.add("first")
    writer.add("second")
    wait_for(lambda: written == ["first", "second"], seconds=10)
