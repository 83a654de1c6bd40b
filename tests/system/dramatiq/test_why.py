"""``why`` of a message id, while a real worker runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from fairqueue.cli import main
from tests.system.dramatiq.conftest import message

pytestmark = pytest.mark.system


def test_why_a_message_waits(redis_mill: Any) -> None:
    """It runs, its workspace is at its limit, it is delayed, or it is paused."""
    settings = redis_mill.settings(workspace_concurrency=1)
    redis_mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    broker = redis_mill.broker(settings)

    def why(sent: Any) -> Any:
        where = ["--url", redis_mill.core_url, "--namespace", redis_mill.namespace]
        result = CliRunner().invoke(main, ["why", "--task-id", sent.message_id, "--json", *where])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    runs = broker.enqueue(message("work", 1, workspace="ada", seconds=60))
    redis_mill.ledger.wait("start", 1, workspace="ada")
    waits = broker.enqueue(message("work", 2, workspace="ada"))
    later = broker.enqueue(message("work", 3, workspace="bea"), delay=500_000)
    with redis_mill.core(brings_limits=False) as core:
        core.admin.pause(workspace="cleo")
    held = broker.enqueue(message("work", 4, workspace="cleo"))

    assert (why(runs)["state"], why(runs)["workspace"]) == ("running", "ada")
    (hold,) = why(waits)["blockers"]
    assert (hold["kind"], hold["scope"], hold["used"]) == ("concurrency", "workspace", 1)
    assert why(later)["blockers"][0]["kind"] == "time"
    (hold,) = why(held)["blockers"]
    assert (hold["kind"], hold["name"]) == ("pause", "cleo")
