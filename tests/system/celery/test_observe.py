"""Limits that are observed first and then enforced, judged by the ledger."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.system


def test_limits_are_observed_before_they_are_enforced(shop: Any) -> None:
    """All jobs are accepted, run at once and are counted, until a worker enforces the limits."""
    limits = {"workspace_concurrency": 1, "workspace_capacity": 3}
    url = shop.url(enforce="observe", **limits)
    publisher = shop.publisher(url)
    for n in range(8):
        publisher.send("work", n, kwargs={"seconds": 0.3}, workspace="ada")
    worker = shop.worker("-P", "threads", "-c", "4", url=url)
    shop.ledger.wait("end", 8)
    assert shop.ledger.most_at_once(workspace="ada") > 1
    with shop.core() as core:
        row = next(row for row in core.admin.stats().workspaces if row.workspace == "ada")
        assert (row.would_block > 0, row.would_reject) == (True, 5)
        assert core.admin.why(workspace="ada").observed["capacity.workspace"] == 5
    worker.stop()
    shop.ledger.forget()

    url = shop.url(**limits)
    worker = shop.worker("-P", "threads", "-c", "4", url=url).ready()
    for n in range(3):
        publisher.send("work", n, kwargs={"seconds": 0.1}, workspace="ada")
    shop.ledger.wait("end", 3)
    assert shop.ledger.most_at_once(workspace="ada") == 1
