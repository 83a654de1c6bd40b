"""Limits of tasks, set in ``broker_transport_options``, judged by the ledger."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.system

TENANTS = ("ada", "bea", "cleo")


def test_a_task_s_limit_holds_over_all_workers(shop: Any) -> None:
    """Two at once in total and one per workspace, over two workers; another task is not delayed."""
    limits = {"shop.work": {"concurrency": 2, "workspace_concurrency": 1}}
    shop.config = {"broker_transport_options": {"tasks": limits}}
    publisher = shop.publisher()
    for n in range(8):
        for workspace in TENANTS:
            publisher.send("work", n, kwargs={"seconds": 0.05}, workspace=workspace)
    for n in range(6):
        publisher.send("work_late", n, kwargs={"seconds": 0.05}, workspace="other")
    for _ in range(2):
        shop.worker("-P", "prefork", "-c", "2", url=shop.url())

    shop.ledger.wait("end", 30, seconds=90)  # two workers boot meanwhile

    assert len(shop.ledger.lines("start")) == 30
    limited = [row for row in shop.ledger.lines() if row["workspace"] in TENANTS]
    assert _most_at_once(limited) == 2
    assert all(shop.ledger.most_at_once(workspace=workspace) == 1 for workspace in TENANTS)
    first_24 = sorted(shop.ledger.lines("start"), key=lambda row: row["at"])[:24]
    assert sum(row["workspace"] == "other" for row in first_24) == 6


def _most_at_once(rows: list[dict[str, Any]]) -> int:
    now = most = 0
    for row in sorted(rows, key=lambda row: row["at"]):
        now += {"start": 1, "end": -1}[row["what"]]
        most = max(most, now)
    return most
