"""What happened to jobs, minute by minute and hour by hour: ``queue.activity``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import ceil
from typing import Literal

from fairqueue._activity import HAPPENINGS, WAITS, Happened
from fairqueue._lazy import reports
from fairqueue._stores.store import StoreBase
from fairqueue._types import Scope
from fairqueue.errors import ConfigurationError

By = Literal["workspace", "queue", "task"]
KINDS = ("workspace", "queue", "task")
MINUTE, HOUR = 60, 3600
MINUTES_FOR, HOURS_FOR = 3 * HOUR, 8 * 24 * HOUR
COUNTED = len(HAPPENINGS)
Windows = Sequence[tuple[float, Happened]]
"""When each window began, and what happened in it."""
Counts = Sequence[int]
Rows = dict[str | None, list[Counts]]
"""What is to be added up, by name."""
NOTHING = (0,) * (COUNTED + len(WAITS) + 1)


class Activities:
    """Sums of what processes have seen happen.

    A process sends its counts every 10 s for the minute (of fewer than 30 jobs every 30 s), every
    60 s for the hour; a killed one loses those that it has not sent. They are kept by minute for
    three hours and by hour for eight days. Of each minute and hour, at least the 100 busiest
    workspaces with a queue and task are counted by themselves, the others together.
    """

    def __init__(self, connected: Callable[[], StoreBase]) -> None:
        self._connected = connected

    def read(self, since: float = HOUR) -> Windows:
        """Read once what several answers of the same ``since`` are made of: pass it as ``read``."""
        span, n = _windows_in(since)
        return [*self._connected().activity(span, n)]

    def table(
        self,
        by: By = "workspace",
        *,
        since: float = HOUR,
        of: Sequence[Scope] = (),
        read: Windows | None = None,
    ) -> list[reports.Activity]:
        """Return a row for each workspace, queue or task, the one with most starts first.

        ``since``: how many seconds before now, in whole minutes, beyond 3 hours in whole hours.
        ``of``: a workspace, queue or task, or several of them at once. Raises ConfigurationError
        and StoreUnavailable.
        """
        windows, seconds = self._windows(since, KINDS.index(by), of, read)
        found: Rows = {}
        for name, counts in chain.from_iterable(rows.items() for rows in windows.values()):
            found.setdefault(name, []).extend(counts)
        rows = [_row(name, min(windows), seconds, counts) for name, counts in found.items()]
        return sorted(rows, key=lambda row: (row.name is None, -row.starts, -row.rejections))

    def series(
        self, *, since: float = HOUR, of: Sequence[Scope] = (), read: Windows | None = None
    ) -> list[reports.Activity]:
        """Return a row for each minute, beyond 3 hours for each hour, the oldest first."""
        windows, seconds = self._windows(since, None, of, read)
        rows = {at: windows[at].get(None, [NOTHING]) for at in sorted(windows)}
        return [_row(None, at, seconds / len(windows), counts) for at, counts in rows.items()]

    def _windows(
        self, since: float, by: int | None, of: Sequence[Scope], read: Windows | None
    ) -> tuple[dict[float, Rows], float]:
        """Read each window, and how long all are; ``by``: which name a row has; None: none."""
        span, n = _windows_in(since)
        wanted = [(KINDS.index(scope.kind), scope.name) for scope in of]
        found: dict[float, Rows] = {}
        for begin, happened in self.read(since) if read is None else read:
            rows = found.setdefault(begin, {})
            for names, counts in happened:
                if all(names[kind] == name for kind, name in wanted):
                    rows.setdefault(None if by is None else names[by], []).append(counts)
        return found, n * span


def _windows_in(since: float) -> tuple[int, int]:
    """Return how long a window is, and how many there are."""
    if not 0 < since <= HOURS_FOR:
        raise ConfigurationError(f"since must be above 0 and at most 8 days, not {since!r}")
    span = MINUTE if since <= MINUTES_FOR else HOUR
    return span, ceil(since / span)


def _row(
    name: str | None, since: float, seconds: float, rows: Sequence[Counts]
) -> reports.Activity:
    counts = tuple(map(sum, zip(*rows, strict=True)))
    named = dict(zip(HAPPENINGS, counts, strict=False))
    worked = named.pop("milliseconds") / 1000
    return reports.Activity(
        name, since, seconds, **named, worker_seconds=worked, waits=counts[COUNTED:]
    )
