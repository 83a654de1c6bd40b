"""Aligned tables for terminals, of plain text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from fairqueue.plain import count_jobs, counted, duration, moment, printable, rate
from fairqueue.tables import Column

__all__ = ["count_jobs", "counted", "duration", "moment", "printable", "rate", "table", "width"]


def width(text: str) -> int:
    """The number of terminal columns that the text occupies."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.category(char) in {"Mn", "Me"} for char in text)
    return len(text) + wide - marks


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A table whose first columns, one or ``left``, are left-aligned, the others right-aligned."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(width(line[column]) for line in lines) for column in range(len(head))]
    rule = ["─" * columns for columns in widths]
    lines.insert(1, rule)
    return "\n".join(_line(line, widths, left) for line in lines)


def listed(columns: Sequence[Column], rows: Sequence[Any], none: str) -> str:
    """A table of these rows, or ``none``."""
    head = [column.title for column in columns]
    left = next((n for n, column in enumerate(columns) if column.kind == "num"), len(head))
    cells = ([column.text(row) for column in columns] for row in rows)
    return table(head, cells, left=left) if rows else none


def _line(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    gaps = [" " * (columns - width(cell)) for cell, columns in zip(cells, widths, strict=True)]
    first = [cell + gap for cell, gap in zip(cells[:left], gaps, strict=False)]
    others = [gap + cell for cell, gap in zip(cells[left:], gaps[left:], strict=True)]
    return "  ".join([*first, *others]).rstrip()
