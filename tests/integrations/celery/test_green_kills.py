"""A worker with greenlets kills a run from its main loop, which goes on."""

from __future__ import annotations

from tests.scripts import failure_of
from tests.system.needs import needs

LOST = """
import eventlet
eventlet.monkey_patch()
import os, select, time
from types import SimpleNamespace
from celery.concurrency.eventlet import TaskPool
from fairqueue_celery._worker.abort import end_run

class Request:
    def cancel(self, pool, signal=None, emit_retry=True):
        pool.terminate_job(self.worker_pid)

pool, request = TaskPool(10), Request()
pool.start()
def accepted(pid, _):
    request.worker_pid = pid
pool.apply_async(time.sleep, (60,), callback=print, accept_callback=accepted)
time.sleep(0.1)

pipes = [os.pipe() for _ in range(4)]
for _, writer in pipes:
    os.write(writer, b"!")
select.select([reader for reader, _ in pipes], [], [], 1)  # one of them ends this wait
held = SimpleNamespace(request=request, ended=False, cancelled=False, verdict=None, fence=1)
end_run(held, pool, abort_lost=True)
assert not pool._pool.running()
for _ in pipes:
    assert select.select([], [], [], 0.01) == ([], [], [])
"""


def test_a_kill_leaves_no_switch_behind() -> None:
    """Beside what had ended the loop's wait, others were ready, and resumed it while it killed."""
    needs("eventlet")
    assert not failure_of(LOST)
