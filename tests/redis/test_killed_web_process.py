"""The places of a web process that is killed are free again a lease later."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fairqueue import FairQueue
from fairqueue.errors import RequestRejected

LEASE_SECONDS = 2.0
PROCESS = """
import sys, time
from fairqueue import FairQueue
url, namespace, lease_seconds = sys.argv[1:]
queue = FairQueue(url, namespace=namespace, lease_seconds=lease_seconds, total_requests=3)
tickets = [queue.requests.admit(name) for name in "aab"]
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.system
def test_tickets_end_with_a_killed_process(redis_url: str, namespace: str) -> None:
    """It holds all places for longer than a lease; once it is killed, they come back."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROCESS, redis_url, namespace, str(LEASE_SECONDS)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        with FairQueue(redis_url, namespace=namespace, lease_seconds=LEASE_SECONDS) as queue:
            with pytest.raises(RequestRejected):
                queue.requests.admit("c", wait_seconds=1.5 * LEASE_SECONDS)
            child.kill()
            with queue.requests.admit("c", wait_seconds=20):
                assert queue.requests.in_flight("a")[1] == 0
    finally:
        child.kill()
        child.communicate()
