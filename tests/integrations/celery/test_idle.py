"""What a Celery worker costs that has nothing to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MEMORY = Path("/proc/self/smaps_rollup")
CHILD = """
import gc, sys
from celery import Celery
from celery.signals import worker_process_init

app = Celery("idle", broker=sys.argv[1])
app.conf.worker_redirect_stdouts = False

@worker_process_init.connect
def report(**_):
    gc.collect()
    found = dict(line.split()[:2] for line in open("/proc/self/smaps_rollup").readlines()[1:])
    print(int(found["Private_Dirty:"]) / int(found["Rss:"]), flush=True)

app.worker_main(["worker", "-P", "prefork", "-c", "1"])
"""


@pytest.mark.skipif(not MEMORY.exists(), reason="only Linux tells what is shared")
def test_a_child_shares_the_memory_of_its_parent(socket_url: str, tmp_path: Path) -> None:
    """A whole garbage collection copies little of it; in stock Celery more than half."""
    script = tmp_path / "idle.py"
    script.write_text(CHILD)
    with subprocess.Popen(
        [sys.executable, script, socket_url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as worker:
        assert worker.stdout is not None
        found = next(line for line in worker.stdout if line.startswith("0."))
        worker.terminate()
        worker.communicate(timeout=60)  # it writes until it ends
    assert float(found) < 0.4
