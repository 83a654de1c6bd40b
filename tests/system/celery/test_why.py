"""Why a task waits, asked by its Celery id while a real worker runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from fairqueue.cli import main

pytestmark = pytest.mark.system


def test_a_task_tells_why_it_waits(shop: Any) -> None:
    """It runs, is at its workspace's limit, waits for its time, or for a pause."""
    url = shop.url(workspace_concurrency=1)
    shop.worker("-P", "threads", "-c", "2", url=url).ready()
    publisher = shop.publisher(url)

    def why(sent: Any) -> Any:
        where = ["--url", shop._server.url, "--namespace", shop.namespace]
        result = CliRunner().invoke(main, ["why", "--task-id", sent.id, "--json", *where])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    runs = publisher.send("work", 1, kwargs={"seconds": 60}, tenant="ada")
    shop.ledger.wait("start", 1, tenant="ada")
    waits = publisher.send("work", 2, tenant="ada")
    later = publisher.send("work", 3, tenant="bea", countdown=500)
    with shop.core(brings_limits=False) as core:
        core.pause(workspace="cleo")
    held = publisher.send("work", 4, tenant="cleo")

    assert (why(runs)["state"], why(runs)["workspace"]) == ("running", "ada")
    (hold,) = why(waits)["holds"]
    assert (hold["kind"], hold["scope"], hold["used"]) == ("concurrency", "workspace", 1)
    assert why(later)["holds"][0]["kind"] == "time"
    (hold,) = why(held)["holds"]
    assert (hold["kind"], hold["name"]) == ("pause", "cleo")
