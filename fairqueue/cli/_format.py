"""Aligned tables for terminals, of plain text."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable, Sequence
from typing import Any

from fairqueue.plain import count_jobs, counted, duration, moment, printable, rate
from fairqueue.tables import Column

__all__ = ["count_jobs", "counted", "duration", "moment", "printable", "rate", "table", "width"]


def width(text: str) -> int:
    """The number of terminal columns that the text occupies."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.category(char) in {"Mn", "Me"} for char in text)
    return len(text) + wide - marks


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Container[str] = ()) -> str:
    """A table whose columns are left-aligned, those of the names ``right`` right-aligned."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(width(line[column]) for line in lines) for column in range(len(head))]
    rule = ["─" * columns for columns in widths]
    lines.insert(1, rule)
    aligned = [name in right for name in head]
    return "\n".join(_line(line, widths, aligned) for line in lines)


def listed(columns: Sequence[Column], rows: Sequence[Any], none: str) -> str:
    """A table of these rows, or ``none``."""
    head = [column.title for column in columns]
    numbers = {column.title for column in columns if column.kind == "num"}
    cells = ([column.text(row) for column in columns] for row in rows)
    return table(head, cells, right=numbers) if rows else none


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    gaps = [" " * (columns - width(cell)) for cell, columns in zip(cells, widths, strict=True)]
    padded = zip(cells, gaps, right, strict=True)
    return "  ".join(gap + cell if num else cell + gap for cell, gap, num in padded).rstrip()
