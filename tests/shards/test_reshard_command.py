"""The command that changes the number of shards, beside processes of its own on a real Redis."""

from __future__ import annotations

import pytest

from fairqueue import FairQueue
from tests.unit.conftest import Shell

NAMES = [f"w{n}" for n in range(30)]


@pytest.fixture
def url(redis_url: str) -> str:
    return f"{redis_url}?shards=1"


def test_a_second_command_is_refused(url: str, namespace: str) -> None:
    """With exit code 4, while the first may be at work; one that was killed is forgotten."""
    shell = Shell(url, namespace)
    with FairQueue(url, namespace=namespace) as queue:
        queue.connect()
        assert queue.store.shards[0].hold_moves("another", 30.0)
    found = shell.run("reshard", "--to", "4", code=4)
    assert "another process changes the number of shards" in found.stderr


def test_the_plan_changes_nothing(url: str, namespace: str) -> None:
    """``--dry-run`` counts; what is refused is a sentence."""
    shell = Shell(url, namespace)
    with FairQueue(url, namespace=namespace) as queue:
        for name in NAMES:
            queue.publish(b"", queue="q", workspace=name)
    told = shell.json("reshard", "--to", "4", "--dry-run")
    assert told["dry_run"] is True
    assert told["jobs"] == told["workspaces"]
    assert 15 < told["workspaces"] < 30
    assert "would move" in shell.run("reshard", "--to", "4", "--dry-run").stdout
    assert shell.json("stats")["totals"]["waiting"] == len(NAMES)
    assert "never become one" in shell.run("reshard", "--to", "1", code=2).stderr
