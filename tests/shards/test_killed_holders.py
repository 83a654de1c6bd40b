"""Real processes under a limit over all shards, of which some are killed and some are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.shards.holder import LEASE_SECONDS, open_queue

ROOT = Path(__file__).parents[2]
JOBS, PROCESSES = 110, 4


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server of this test alone."""
    with embedded_redis(tcp=True) as server:
        yield server


@pytest.fixture
def holders(own_server: EmbeddedServer) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Some processes that run jobs of the server."""
    command = [sys.executable, "-m", "tests.shards.holder", own_server.url]
    with ExitStack() as stack:
        found = []
        for _ in range(PROCESSES):
            process = stack.enter_context(subprocess.Popen(command, cwd=ROOT))
            stack.callback(process.kill)
            found.append(process)
        yield found


def forget(notes: redis.Redis, pid: int) -> None:
    """What a process ran does not run any more."""
    for entry in notes.smembers("running"):
        if int(entry.split()[0]) == pid:
            notes.srem("running", entry)


def wait_for(notes: redis.Redis, done: int) -> None:
    """Wait until this many jobs are done."""
    until = time.monotonic() + 90
    while notes.scard("done") < done:
        assert time.monotonic() < until, notes.scard("done")
        time.sleep(0.05)


def test_a_limit_holds_whatever_process_dies(
    own_server: EmbeddedServer, holders: list[subprocess.Popen[bytes]]
) -> None:
    """One is killed, one is stopped for longer than a lease; every job runs, and none above it."""
    notes = own_server.client()
    with open_queue(own_server.url) as queue:
        for n in range(JOBS):
            queue.publish(b"", queue="q", workspace=f"w{n}", job_id=str(n))
        wait_for(notes, 20)
        killed, stopped, *_ = holders
        killed.kill()
        killed.wait()
        forget(notes, killed.pid)
        wait_for(notes, 50)
        os.kill(stopped.pid, signal.SIGSTOP)
        time.sleep(0.8 * LEASE_SECONDS)  # its lease ends about now, and its permit later
        forget(notes, stopped.pid)
        time.sleep(LEASE_SECONDS)
        os.kill(stopped.pid, signal.SIGCONT)
        wait_for(notes, JOBS)
        assert notes.get("above") is None
