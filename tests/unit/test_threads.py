"""Native threads beside greenlets."""

from __future__ import annotations

import subprocess
import sys

from tests.system.needs import needs

TWO_THREADS_LOG = """
import eventlet
eventlet.monkey_patch()
import logging, sys
from eventlet.patcher import original
from fairqueue._threads import start_native

time, threading = original("time"), original("threading")


class Slow(logging.Handler):
    def emit(self, record):
        time.sleep(0.3)


log = logging.getLogger("slow")
log.addHandler(Slow())
ended = threading.Semaphore(0)


def run():
    log.warning("a line")
    ended.release()


for n in range(2):
    start_native(run, name=f"thread-{n}")
sys.exit(not all(ended.acquire(timeout=10) for _ in range(2)))
"""


def test_two_native_threads_may_log_at_once_under_eventlet() -> None:
    """The one that waits for the other is not left asleep: it may be the one that renews."""
    needs("eventlet")
    command = [sys.executable, "-W", "ignore", "-c", TWO_THREADS_LOG]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
