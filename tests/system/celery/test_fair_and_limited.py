"""A flood beside small workspaces, judged by the tasks' ledger."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.system.ledger import wait_for

pytestmark = pytest.mark.story

EXPIRED = 300
SMALL = ("ada", "bea", "cleo")


def flood(shop: Any, url: str, *, seconds: float) -> None:
    publisher = shop.publisher(url)
    for n in range(300):
        publisher.send("work", n, kwargs={"seconds": seconds}, workspace="big")
    for n in range(10):
        for workspace in SMALL:
            publisher.send("work", n, kwargs={"seconds": seconds}, workspace=workspace)


def starts(shop: Any) -> list[dict[str, Any]]:
    return sorted(shop.ledger.lines("start"), key=lambda row: row["at"])


def test_limit_holds_and_small_workspaces_start_early(shop: Any) -> None:
    """330 jobs run once each, two at most per workspace; small ones start in the first quarter."""
    url = shop.url(workspace_concurrency=2)
    flood(shop, url, seconds=0.01)
    shop.worker("-P", "prefork", "-c", "4", url=url).ready()

    shop.ledger.wait("end", 330)

    order = starts(shop)
    assert len(order) == len({(row["workspace"], row["n"]) for row in order}) == 330
    for workspace in ("big", *SMALL):
        assert shop.ledger.most_at_once(workspace=workspace) <= 2
    assert max(i for i, row in enumerate(order) if row["workspace"] != "big") < 330 / 4


def test_tasks_that_expired_while_no_worker_ran_delay_no_other_workspace(
    shop: Any, tmp_path: Path
) -> None:
    """Another workspace's task is claimed before most of them are dead letters."""
    publisher, latch = shop.publisher(), tmp_path / "latch"
    for n in range(EXPIRED):
        publisher.send("work", n, workspace="late", expires=1)
    held = publisher.send("held_late", 0, workspace="ada", kwargs={"until": str(latch)})
    time.sleep(1.1)
    shop.worker("-P", "threads", "-c", "1", url=shop.url())
    shop.ledger.wait("start", 1)
    with shop.core() as core:
        found = core.views.why(job_id=held.id)
        latch.touch()
        wait_for(lambda: len(core.dead.page("late", count=EXPIRED)) == EXPIRED)
        died = [letter.died for letter in core.dead.page("late", count=EXPIRED)]
    assert found.since is not None, found
    assert sum(at < found.since for at in died) < EXPIRED / 2
    assert shop.ledger.lines("start", workspace="late") == []
