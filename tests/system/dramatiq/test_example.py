"""The example works as documented."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from fairqueue.testing import Child, EmbeddedServer
from tests.system.ledger import wait_for

APP = Path(__file__).parents[3] / "examples" / "dramatiq_app"


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=APP,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_runs(redis_server: EmbeddedServer, tmp_path: Path) -> None:
    """A thousand reports of one customer, one more is refused, and another's report starts soon."""
    said = run("send.py", REDIS_URL=redis_server.url)
    assert "megacorp is full" in said
    log = tmp_path / "log"
    worker = Child(
        [sys.executable, "-m", "dramatiq", "app", "-p", "1", "-t", "4"],
        env={**os.environ, "REDIS_URL": redis_server.url, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=APP,
        log=log,
    )
    try:
        wait_for(lambda: log.exists() and log.read_text().count("report of") == 1001, seconds=60)
        workspaces = re.findall(r"report of .+? for (megacorp|ada)", log.read_text())
        assert workspaces.index("ada") < 20
    finally:
        worker.end()
