"""The example runs as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from fairqueue.testing import Child, EmbeddedServer, embedded_redis
from tests.system.ledger import wait_for

APP = Path(__file__).parents[3] / "examples" / "celery_app"


def surroundings(server: EmbeddedServer | None = None) -> dict[str, str]:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if server is not None:
        env["BROKER"] = server.url.replace("unix://", "fairqueue+socket://")
    return env


def run(*command: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=APP, env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_runs(tmp_path: Path) -> None:
    """A thousand reports of one workspace, the refusal of one more, and another's report soon."""
    with embedded_redis() as server:  # its namespace is the default one
        env, log = surroundings(server), tmp_path / "log"
        assert "megacorp is full" in run("send.py", env=env)
        command = [sys.executable, "-m", "celery", "-A", "app", "worker", "-c", "2"]
        worker = Child(command, env=env, cwd=APP, log=log)
        try:
            wait_for(lambda: log.exists() and written(log) == 1001, seconds=90)
            tenants = re.findall(r"report of .+? for (megacorp|ada)", log.read_text())
            assert tenants.index("ada") < 20
        finally:
            worker.end()


def written(log: Path) -> int:
    return len(re.findall(r"report of .+? for (?:megacorp|ada)", log.read_text()))
