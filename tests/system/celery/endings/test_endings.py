"""Every ending in every pool, with real workers: the ledger agrees with the table."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import celery
import kombu
import pytest
import redis

from tests.system.celery.endings import cells, report
from tests.system.celery.endings.bench import bench
from tests.system.celery.endings.endings import ENDINGS

REPORT = os.environ.get("FAIRQUEUE_TEST_ENDINGS")
"""A file to which each outcome is appended, a line per cell."""

QUICK = {
    "prefork": (
        "reject",
        "reject_requeue",
        "system_exit",
        "child_killed",
        "hard_limit",
        "terminate",
    ),
    "threads": ("system_exit", "terminate", "rate_limited"),
    "gevent": ("hard_limit", "terminate", "expired"),
}


def existing(pool: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if cells.variants(pool, name)]


def shared(pool: str) -> list[str]:
    return existing(pool, (n for n, ending in ENDINGS.items() if not ending.needs_worker(pool)))


def alone() -> list[tuple[str, str]]:
    """Pools and endings that need workers of their own."""
    return [
        (pool, name)
        for pool in cells.POOLS
        for name in existing(pool, ENDINGS)
        if ENDINGS[name].needs_worker(pool)
    ]


def play(
    shop: Any, pool: str, names: Iterable[str], *, seconds: float = cells.SEEN_SECONDS
) -> dict[str, list[str]]:
    """Play, note what was seen, and return what differs from the table."""
    found: dict[str, list[str]] = {}
    with bench(shop, pool) as stage:
        for name in names:
            for seen in stage.play([name], cells.variants(pool, name)):
                if REPORT:
                    with Path(REPORT).open("a") as report:
                        row = {**seen.as_row(), "versions": versions(shop)}
                        report.write(json.dumps(row) + "\n")
                if wrong := list(cells.problems(seen, visible_seconds=seconds)):
                    found[f"{pool} {name} {seen.variant}"] = wrong
    return found


def versions(shop: Any) -> str:
    return (
        f"Celery {celery.__version__}, kombu {kombu.__version__}, redis-py {redis.__version__}, "
        f"{shop._server.version} and Python {platform.python_version()}"
    )


@pytest.mark.parametrize("pool", QUICK)
def test_common_endings(shop: Any, pool: str) -> None:
    """Deaths of tasks and children, early and late acked: no slot waits for lease expiry."""
    endings = existing(pool, QUICK[pool])
    assert play(shop, pool, endings, seconds=cells.BESIDE_OTHERS_SECONDS) == {}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pool", cells.POOLS)
def test_endings_of_tasks(shop: Any, pool: str) -> None:
    """Every ending that leaves the worker as it was, one after the other in one worker."""
    assert play(shop, pool, shared(pool)) == {}


@pytest.mark.long
@pytest.mark.parametrize(("pool", "name"), alone())
def test_endings_of_workers(shop: Any, pool: str, name: str) -> None:
    """An ending that changes or ends the whole worker, in its own worker."""
    assert play(shop, pool, [name]) == {}


def test_every_cell_is_declared() -> None:
    """Each pool, ack mode and ending has an expected outcome, or a reason why it cannot exist."""
    assert set(cells.TABLE) == {(name, pool) for name in ENDINGS for pool in cells.POOLS}


@pytest.mark.skipif(cells.CELERY < cells.NEWEST, reason="the page is about the newest Celery")
def test_the_page_shows_what_is_declared() -> None:
    """Starts, ends, state and marks of every cell in the docs are those of the table."""
    shown = report.PAGE.read_text()
    for pool in cells.POOLS:
        section = shown.partition(f"\n## {pool}\n")[2].partition("\n## ")[0]
        for name in existing(pool, ENDINGS):
            [row] = [line for line in section.splitlines() if line.startswith(f"| {title(name)} |")]
            for variant, cell in zip(cells.VARIANTS, row.split(" | ")[1:], strict=False):
                assert says(cell, pool, name, variant), f"{pool} {name} {variant}: {cell}"


@pytest.mark.skipif(cells.CELERY < cells.NEWEST, reason="the page is about the newest Celery")
def test_the_page_shows_what_older_versions_do() -> None:
    """The docs name the versions they were played on, and what is declared for older Celery."""
    shown = report.PAGE.read_text()
    assert report.table_of(report.on_older()) in shown
    assert f"Celery {'.'.join(map(str, cells.NEWEST))}" in shown


def title(name: str) -> str:
    return ENDINGS[name].title


def says(shown: str, pool: str, name: str, variant: str) -> bool:
    entry = cells.expected(pool, name, variant)
    assert isinstance(entry, cells.Cell)
    counts, state, *marks = shown.partition(",")[0].split()
    return (
        counts == f"{entry.starts}/{entry.ends}"
        and state in entry.state.split(" or ")
        and marks
        == [m for m, on in (("↻", entry.again), ("lost", entry.lost), ("dead", entry.dead)) if on]
    )
