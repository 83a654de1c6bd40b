"""Runs an example's ``send.py`` and a real worker, on a server that the wheel's demo extra brings.

The release check copies it beside the example and runs it there with the environment's Python, so
it imports nothing but fairqueue's public testing module.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fairqueue.testing import Child, EmbeddedServer, embedded_redis

PYTHON = sys.executable
WORKERS = {
    "celery": (PYTHON, "-m", "celery", "-A", "app", "worker", "-c", "2"),
    "dramatiq": (PYTHON, "-m", "dramatiq", "app", "-p", "1", "-t", "4"),
}
REPORTS = 1001
SECONDS = 120


def surroundings(server: EmbeddedServer) -> dict[str, str]:
    """Where both examples look for their broker."""
    broker = server.url.replace("unix://", "fairqueue+socket://")
    return {**os.environ, "BROKER": broker, "REDIS_URL": server.url}


def written(log: Path) -> list[str]:
    """The workspaces of the reports that were written, in their order."""
    return re.findall(r"report of .+? for (megacorp|ada)", log.read_text()) if log.exists() else []


def play(framework: str, server: EmbeddedServer, log: Path) -> list[str]:
    """Order the reports and have a worker write them."""
    env, until = surroundings(server), time.monotonic() + SECONDS
    said = subprocess.run([PYTHON, "send.py"], env=env, capture_output=True, text=True, check=True)
    assert "megacorp is full" in said.stdout, said.stdout
    worker = Child(WORKERS[framework], env=env, cwd=Path.cwd(), log=log)
    try:
        while len(written(log)) < REPORTS and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        worker.end()
    return written(log)


def main(framework: str) -> None:
    """Fail unless every report is written once, and that of the small workspace early."""
    with tempfile.TemporaryDirectory() as folder, embedded_redis() as server:
        log = Path(folder) / "log"
        reports = play(framework, server, log)
        assert len(reports) == REPORTS, f"{len(reports)} reports\n{log.read_text()[-2000:]}"
        place = reports.index("ada") + 1
        assert place <= 20, f"the report of ada was number {place}"
        print(f"{framework}: {REPORTS} reports by a real worker on {server.version}; the one that")
        print(f"was ordered last, by another workspace, was written as number {place}")


if __name__ == "__main__":
    main(sys.argv[1])
