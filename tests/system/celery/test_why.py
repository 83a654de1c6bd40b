"""Why a task waits, asked by its Celery id while a real worker runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from fairqueue.cli import main

pytestmark = pytest.mark.system


def test_why_a_task_waits(shop: Any) -> None:
    """It runs, its workspace is at its limit, it is scheduled, or paused."""
    url = shop.url(workspace_concurrency=1)
    shop.worker("-P", "threads", "-c", "2", url=url).ready()
    publisher = shop.publisher(url)

    def why(sent: Any) -> Any:
        where = ["--url", shop._server.url, "--namespace", shop.namespace]
        result = CliRunner().invoke(main, ["why", "--task-id", sent.id, "--json", *where])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    runs = publisher.send("work", 1, kwargs={"seconds": 60}, workspace="ada")
    shop.ledger.wait("start", 1, workspace="ada")
    waits = publisher.send("work", 2, workspace="ada")
    later = publisher.send("work", 3, workspace="bea", countdown=500)
    with shop.core(brings_limits=False) as core:
        core.admin.pause(workspace="cleo")
    held = publisher.send("work", 4, workspace="cleo")

    assert (why(runs)["state"], why(runs)["workspace"]) == ("running", "ada")
    (hold,) = why(waits)["blockers"]
    assert (hold["kind"], hold["scope"], hold["used"]) == ("concurrency", "workspace", 1)
    assert why(later)["blockers"][0]["kind"] == "time"
    (hold,) = why(held)["blockers"]
    assert (hold["kind"], hold["name"]) == ("pause", "cleo")
