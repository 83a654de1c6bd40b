"""A flood beside small tenants, judged by the ledger of the tasks."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.system

SMALL = ("ada", "bea", "cleo")


def flood(shop: Any, url: str, *, seconds: float) -> None:
    publisher = shop.publisher(url)
    for n in range(300):
        publisher.send("work", n, kwargs={"seconds": seconds}, tenant="big")
    for n in range(10):
        for tenant in SMALL:
            publisher.send("work", n, kwargs={"seconds": seconds}, tenant=tenant)


def starts(shop: Any) -> list[dict[str, Any]]:
    return sorted(shop.ledger.lines("start"), key=lambda row: row["at"])


def test_limit_holds_and_small_tenants_start_early(shop: Any) -> None:
    """330 jobs run once each, two at most per workspace; small ones start in the first quarter."""
    url = shop.url(workspace_concurrency=2)
    flood(shop, url, seconds=0.01)
    shop.worker("-P", "prefork", "-c", "4", url=url).ready()

    shop.ledger.wait("end", 330)

    order = starts(shop)
    assert len(order) == len({(row["tenant"], row["n"]) for row in order}) == 330
    for tenant in ("big", *SMALL):
        assert shop.ledger.most_at_once(tenant=tenant) <= 2
    assert max(i for i, row in enumerate(order) if row["tenant"] != "big") < 330 / 4


def test_without_a_limit_small_tenants_still_start_early(shop: Any) -> None:
    """With no limit set, the 30 small jobs are among the first 70 starts."""
    url = shop.url()
    flood(shop, url, seconds=0.01)
    shop.worker("-P", "prefork", "-c", "4", url=url).ready()

    shop.ledger.wait("end", 330)

    order = starts(shop)
    assert len(order) == 330
    assert sum(row["tenant"] != "big" for row in order[:70]) == 30


def test_threads_keep_the_limit_too(shop: Any) -> None:
    """In a pool of threads the limit holds, and each job runs once."""
    url = shop.url(workspace_concurrency=2)
    publisher = shop.publisher(url)
    for n in range(60):
        publisher.send("work", n, kwargs={"seconds": 0.005}, tenant=f"t{n % 3}")
    shop.worker("-P", "threads", "-c", "4", url=url).ready()

    shop.ledger.wait("end", 60)

    assert len(shop.ledger.lines("start")) == 60
    assert all(shop.ledger.most_at_once(tenant=f"t{t}") <= 2 for t in range(3))


def test_a_reserve_goes_first(shop: Any) -> None:
    """Behind thirty tenants who wait, the one with a reserved process never waits for its turn."""
    url = shop.url()
    shop.config = {"broker_transport_options": {"workspaces": {"gold": {"reserve": 1}}}}
    publisher = shop.publisher(url, **shop.config)
    for n in range(2):
        for tenant in range(30):
            publisher.send("work", n, tenant=f"other-{tenant}", kwargs={"seconds": 0.02})
    for n in range(6):
        publisher.send("work", n, tenant="gold", kwargs={"seconds": 0.02})
    shop.worker("-P", "prefork", "-c", "2", url=url)

    shop.ledger.wait("end", 66)

    order = starts(shop)
    last = max(i for i, row in enumerate(order) if row["tenant"] == "gold")
    assert last < 30, "in turn with the others it would start its second job after all 30"
