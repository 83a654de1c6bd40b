"""What happened to jobs, as it is counted by minute and by hour."""

from __future__ import annotations

from collections.abc import Sequence

WAITS = (0.1, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)
"""By which waits starts are counted, in seconds."""
HAPPENINGS = ("starts", "ends", "failures", "dead", "expiries", "rejections", "milliseconds")
"""What is counted of a workspace, queue and task; starts by how long the jobs waited follow."""
OTHER = None
"""In place of a name: all that are not counted by themselves."""
Happened = list[tuple[tuple[str | None, str | None, str | None], Sequence[int]]]
"""Counts by workspace, queue and task."""
