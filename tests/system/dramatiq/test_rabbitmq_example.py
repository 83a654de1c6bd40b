"""The example on RabbitMQ runs as a reader would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fairqueue.testing import Child, embedded_redis
from tests.system.dramatiq.rabbitmq import RabbitServer
from tests.system.ledger import wait_for

APP = Path(__file__).parents[3] / "examples" / "dramatiq_rabbitmq"


def test_old_and_new_producers_are_served(rabbit_server: RabbitServer, tmp_path: Path) -> None:
    """Mails of two customers arrive, also the one of a producer that knows RabbitMQ only."""
    log = tmp_path / "log"
    with embedded_redis() as server:  # its namespace is the default one
        env = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            "RABBITMQ_URL": rabbit_server.url,
            "REDIS_URL": server.url,
        }
        subprocess.run([sys.executable, "send.py"], cwd=APP, env=env, timeout=60, check=True)
        command = [sys.executable, "-m", "dramatiq", "app", "-p", "1", "-t", "4"]
        worker = Child(command, env=env, cwd=APP, log=log)
        try:
            wait_for(lambda: log.exists() and log.read_text().count(" for ") >= 102, seconds=60)
        finally:
            worker.end()
    said = log.read_text()
    assert "'from an old producer' for ada" in said
    assert said.index("'welcome' for ada") < said.index("'offer 20' for megacorp")
