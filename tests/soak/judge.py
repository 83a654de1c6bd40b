"""Judges a soak by its ledger."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from tests.soak.settings import FAMILY, FAMILY_LIMIT, LIMIT, LONG_LIMIT, PAUSED, SETTINGS

if TYPE_CHECKING:
    from tests.soak.load import Load

Row = dict[str, Any]

STARTS = {
    "once": (1, 1), "flaky": (3, 3), "dying": (2, 99), "parent": (1, 9), "watched": (1, 1),
    "never": (0, 0), "at most once": (0, 1), "at most once, cancelled": (0, 1),
}  # fmt: skip
"""How often a job must begin, at least and at most."""


def verdict(of: Load, rows: list[Row]) -> dict[str, list[Any]]:
    """Return what was found: the numbers of jobs, or what is wrong with limits and ticks."""
    rows.sort(key=lambda row: row["at"])
    starts = Counter(row["n"] for row in rows if row["what"] == "start")
    ends = Counter(row["n"] for row in rows if row["what"] == "end")
    found: dict[str, list[Any]] = {"lost": [], "too often": []}
    for n, must in of.must.items():
        least, most = STARTS[must]
        least_ends = min(least, 1) if must != "at most once" else starts[n]
        if starts[n] < least or ends[n] < least_ends:
            found["lost"].append((n, must, starts[n], ends[n]))
        if starts[n] > most or ends[n] > 1:
            found["too often"].append((n, must, starts[n], ends[n]))
    found["unknown"] = sorted(starts.keys() - of.must.keys())
    begun = (row for row in rows if row["what"] == "start")
    found["too early"] = [r["n"] for r in begun if r["at"] < of.not_before.get(r["n"], 0)]
    found["above a limit"] = list(above_limits(of, rows))
    found["in a pause"] = list(in_pauses(of, rows))
    found["ticks"] = list(wrong_ticks(of, rows))
    return found


def _scopes(of: Load, row: Row) -> Iterator[tuple[Any, int]]:
    workspace = row["workspace"]
    own = SETTINGS["workspaces"].get(workspace, {})
    if row["at"] < of.left.get(workspace, inf):
        yield workspace, of.limits.get(workspace, own.get("concurrency", LIMIT))
    else:
        yield workspace, LIMIT
    if workspace in FAMILY:
        yield "family", FAMILY_LIMIT
    if row["task"] == "long":
        yield "task", LONG_LIMIT["concurrency"]
        yield ("task", workspace), LONG_LIMIT["workspace_concurrency"]


def above_limits(of: Load, rows: Iterable[Row]) -> Iterator[tuple[int, Any]]:
    """Give each start that found a limit reached; a run holds its places until its row of an end.

    Runs of cancelled jobs, which may have none, are left out.
    """
    running: dict[Any, set[int]] = defaultdict(set)
    for row in rows:
        if row["workspace"] == "cancelled" or row["what"] == "tick":
            continue
        for scope, limit in _scopes(of, row):
            if row["what"] == "start":
                if len(running[scope]) >= limit:
                    yield row["n"], scope
                running[scope].add(row["n"])
            else:
                running[scope].discard(row["n"])


def in_pauses(of: Load, rows: Iterable[Row]) -> Iterator[int]:
    """Give each start in a pause; one may be under way for a second as it begins."""
    for row in rows:
        is_start = row["workspace"] == PAUSED and row["what"] == "start"
        if is_start and any(since + 1 < row["at"] < until for since, until in of.pauses):
            yield row["n"]


def wrong_ticks(of: Load, rows: Iterable[Row]) -> Iterator[tuple[Any, float, float]]:
    """Give each pair of ticks of a schedule that are not its interval apart."""
    ticks: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        if row["what"] == "tick":
            ticks[row["workspace"], row["schedule"]].append(row["tick"])
    for schedule, every in of.schedules.items():
        for one, then in pairwise(sorted(ticks[schedule])):
            if abs(then - one - every) > every / 100:
                yield schedule, one, then
