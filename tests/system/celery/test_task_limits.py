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


def test_a_task_s_rate_spaces_starts_over_all_workers(shop: Any) -> None:
    """With ten a second and a burst of two, at most twelve start in any second."""
    shop.config = {"broker_transport_options": {"tasks": {"shop.work": {"rate": 10, "burst": 2}}}}
    publisher = shop.publisher()
    for n in range(8):
        for workspace in TENANTS:
            publisher.send("work", n, workspace=workspace)
    for _ in range(2):
        shop.worker("-P", "threads", "-c", "4", url=shop.url())

    shop.ledger.wait("end", 24, seconds=90)

    starts = sorted(row["at"] for row in shop.ledger.lines("start"))
    assert len(starts) == 24
    assert starts[-1] - starts[0] >= 22 / 10 - 0.5  # a start is noted a little after its claim
    for at in starts:
        assert sum(at <= other < at + 1 for other in starts) <= 12 + 3


def test_a_task_s_rate_per_workspace_spaces_the_starts_of_each(shop: Any) -> None:
    """At five a second each, three workspaces start fifteen; another task does not wait."""
    limits = {"shop.work": {"workspace_rate": 5, "workspace_burst": 1}}
    shop.config = {"broker_transport_options": {"tasks": limits}}
    publisher = shop.publisher()
    for n in range(8):
        for workspace in TENANTS:
            publisher.send("work", n, workspace=workspace)
    publisher.send("work_late", 99, workspace="ada")
    for _ in range(2):
        shop.worker("-P", "threads", "-c", "4", url=shop.url())

    shop.ledger.wait("end", 25, seconds=90)

    starts = {name: _starts(shop, name) for name in TENANTS}
    assert all(len(found) == 8 for found in starts.values())
    for found in starts.values():
        assert found[-1] - found[0] >= 7 / 5 - 0.4  # a start is noted a little after its claim
    together = sorted(at for found in starts.values() for at in found)
    assert together[-1] - together[0] < 24 / 5 - 1  # nor does one workspace wait for the others
    (other,) = shop.ledger.lines("start", n=99)
    assert other["at"] < together[-1]


def _starts(shop: Any, workspace: str) -> list[float]:
    lines = shop.ledger.lines("start", workspace=workspace)
    return sorted(line["at"] for line in lines if line["n"] != 99)


def _most_at_once(rows: list[dict[str, Any]]) -> int:
    now = most = 0
    for row in sorted(rows, key=lambda row: row["at"]):
        now += {"start": 1, "end": -1}[row["what"]]
        most = max(most, now)
    return most
