"""A worker that boots while Redis is full: it waits, says so, and goes on once there is room."""

from __future__ import annotations

from pathlib import Path

import dramatiq
import pytest
from click.testing import CliRunner

from fairqueue.cli import main
from fairqueue.testing import embedded_redis
from tests.system.dramatiq.conftest import Mill, message
from tests.system.ledger import wait_for


def test_a_worker_boots_on_a_full_redis(namespace: str, tmp_path: Path) -> None:
    """It runs what waits, says why nothing is adopted, and adopts once there is room."""
    with embedded_redis() as server:
        mill, client = Mill(server.url, server.url, namespace, tmp_path), server.client()
        try:
            settings = mill.settings(workspace_concurrency=2, lease_seconds=2)
            broker = mill.broker(settings)
            broker.enqueue(message("work", 1, workspace="ada"))
            broker.enqueue(message("work", 2, workspace="bob"))
            mill.broker().enqueue(message("work", 3, workspace="cleo"))  # without the middleware
            client.config_set("maxmemory", 1)
            where = ["--namespace", namespace, "--url", server.url]
            done = CliRunner().invoke(main, ["cancel", "--workspace", "bob", "--yes", *where])
            assert done.exit_code == 0, done.output

            worker = mill.worker("-p", "1", "-t", "2", settings=settings).ready()
            mill.ledger.wait("end", 1, n=1)
            told = (
                "nothing is adopted from queue 'default' of the user's broker, retrying: Redis is"
            )
            wait_for(lambda: f"{told} out of memory" in worker.log.read_text(), seconds=20)
            assert "Traceback" not in worker.log.read_text()
            with pytest.raises(dramatiq.errors.ConnectionClosed, match="Redis is out of memory"):
                broker.enqueue(message("work", 4, workspace="ada"))

            client.config_set("maxmemory", 0)
            mill.ledger.wait("end", 1, n=3)
            assert worker.stop() == 0
            assert {line["n"] for line in mill.ledger.lines("start")} == {1, 3}
        finally:
            mill.close()
