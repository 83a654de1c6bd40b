"""A flood beside small workspaces, judged by the tasks' ledger."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.story

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
