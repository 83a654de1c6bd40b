"""Plain text for terminals: safe names, counts, durations, aligned tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

ALMOST = 1e-6
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    """Escape every character that could control a terminal or reorder a line."""
    return "".join(
        _escaped(char) if unicodedata.category(char) in _UNSAFE else char for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def count_jobs(count: int) -> str:
    """A number of jobs: ``1 job``, ``2,000 jobs``."""
    return "1 job" if count == 1 else f"{count:,} jobs"


def duration(seconds: float | None) -> str:
    """A duration for people: ``0.4 s``, ``12 s``, ``3 m 05 s``, ``2 h 03 m``."""
    if seconds is None:
        return "–"
    if seconds < 9.95:  # noqa: PLR2004 - what rounds to 10 is shown without a tenth
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} m"
    return f"{minutes} m {rest:02} s" if minutes else f"{rest} s"


def rate(per_second: float) -> str:
    """A rate as the settings take it: ``2.5/s``, ``10/m``, ``1/h``."""
    for seconds, unit in ((1, "s"), (60, "m"), (3600, "h")):
        number = per_second * seconds
        if number >= 1 and abs(number - round(number)) < ALMOST:
            return f"{round(number)}/{unit}"
    return f"{per_second:g}/s"


def moment(seconds: float) -> str:
    """A point in time, given in seconds since 1970: ``2030-01-31 12:00:00 UTC``."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def width(text: str) -> int:
    """The number of terminal columns that the text occupies."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.category(char) in {"Mn", "Me"} for char in text)
    return len(text) + wide - marks


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a left-aligned first column; the other columns are right-aligned."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(width(line[column]) for line in lines) for column in range(len(head))]
    rule = ["─" * columns for columns in widths]
    lines.insert(1, rule)
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    gaps = [" " * (columns - width(cell)) for cell, columns in zip(cells, widths, strict=True)]
    first, *others = zip(cells, gaps, strict=True)
    return "  ".join([first[0] + first[1], *(gap + cell for cell, gap in others)]).rstrip()
