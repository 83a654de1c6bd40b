"""Pictures of the last hour: areas of shares, and lines of what happened. A template draws them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log10

from fairqueue._activity import HAPPENINGS
from fairqueue._reports import Activity
from fairqueue.operate.activity import Windows
from fairqueue.plain import duration, printable

WIDTH, HEIGHT = 720.0, 100.0  # as the template has it
COLOURS = 7
"""Workspaces with a colour of their own; the others share one."""
WORKED = HAPPENINGS.index("milliseconds")
Point = tuple[float, float]
Shape = tuple[str, str]
"""The class of an area or a line, and its points."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One colour of a picture."""

    css: str
    name: str | None
    """None: all other workspaces."""
    value: float
    """Its part of the whole hour, of 1."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture, its scale, and its colours."""

    title: str
    told: str
    """What is read aloud."""
    legend: tuple[Entry, ...]
    areas: tuple[Shape, ...]
    lines: tuple[Shape, ...] = ()
    top: str = ""
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a picture."""

    css: str
    name: str
    value: Callable[[Activity], float | None]


def _text(points: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def round_up_seconds(value: float) -> float:
    """Return the next time that is easy to read, for the top of a scale."""
    steps = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
    return next((float(step) for step in steps if step >= value), 3600 * round_up(value / 3600))


def round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, 50, … for the top of a scale."""
    if value <= 1:
        return 1.0
    unit = 10 ** (ceil(log10(value)) - 1)
    return float(next(n * unit for n in (1, 2, 5, 10) if n * unit >= value))


def shares(hour: Windows) -> Picture:
    """Areas one upon the other: the part of the worker time that each workspace has."""
    totals, minutes = Counter[str | None](), dict[float, dict[str | None, float]]()
    for begin, happened in hour:
        minute = minutes.setdefault(begin, defaultdict(float))
        for (workspace, _, _), counts in happened:
            minute[workspace] += counts[WORKED]
    for minute in minutes.values():
        totals.update(minute)
    of_all = sum(totals.values())
    named = [name for name, seconds in totals.most_common() if name is not None and seconds]
    named = named[:COLOURS]
    legend = [Entry(f"c{n}", name, totals[name] / of_all) for n, name in enumerate(named)]
    others = of_all - sum(totals[name] for name in named)
    legend += [Entry("other", None, others / of_all)] if others > 0 else []
    title = "Shares of the worker time"
    told = ", ".join(f"{printable(entry.name or 'others')} {entry.value:.0%}" for entry in legend)
    areas = tuple(_layers([minutes[at] for at in sorted(minutes)], named))
    return Picture(title, told, tuple(legend), areas, is_empty=not of_all)


def _layers(minutes: Sequence[dict[str | None, float]], named: Sequence[str]) -> Iterator[Shape]:
    below = [0.0] * len(minutes)
    totals = [sum(minute.values()) or 1.0 for minute in minutes]
    for n, name in enumerate([*named, None]):
        above = [
            low + (minute.get(name, 0.0) if name else 0.0) / total
            for low, minute, total in zip(below, minutes, totals, strict=True)
        ]
        if name is None:
            above = [1.0 if any(minute.values()) else 0.0 for minute in minutes]
        if above != below:
            outline = _points(above) + _points(below)[::-1]
            yield "other" if name is None else f"c{n}", _text(outline)
        below = above


def _points(values: Sequence[float]) -> list[Point]:
    """Place values between 0 and 1, each over the width of its minute."""
    width = WIDTH / max(1, len(values))
    return [
        (round(x, 1), round(HEIGHT * (1 - value), 2))
        for n, value in enumerate(values)
        for x in (n * width, (n + 1) * width)
    ]


def lines(
    rows: Sequence[Activity],
    title: str,
    drawn: Sequence[Line],
    scale: Callable[[float], float] = round_up,
    text: Callable[[float], str] = "{:,.0f}".format,
) -> Picture:
    """Lines, with a tinted area below the first."""
    values = {line: [line.value(row) or 0.0 for row in rows] for line in drawn}
    tops = {line.name: max(found, default=0.0) for line, found in values.items()}
    top = scale(max(tops.values()))
    told = ", ".join(f"{name}: at most {text(most)}" for name, most in tops.items())
    legend = tuple(Entry(line.css, line.name, tops[line.name]) for line in drawn)
    points = {line: _points([value / top for value in found]) for line, found in values.items()}
    below = [(WIDTH, HEIGHT), (0.0, HEIGHT)]
    areas = (("tint", _text(points[drawn[0]] + below)),)
    curves = tuple((line.css, _text(found)) for line, found in points.items())
    return Picture(title, told, legend, areas, curves, text(top), is_empty=not any(tops.values()))


def of_activity(rows: Sequence[Activity]) -> list[Picture]:
    """The pictures of a page: what started, what went wrong, how long jobs waited, what ran."""
    return [
        lines(rows, "Jobs started a minute", [Line("l0", "started", lambda row: row.starts)]),
        lines(
            rows,
            "Failures a minute",
            [
                Line("l1", "failed runs", lambda row: row.failures),
                Line("l2", "dead letters", lambda row: row.dead),
                Line("l3", "rejected publishes", lambda row: row.rejections),
            ],
        ),
        lines(
            rows,
            "Wait until the start",
            [
                Line("l0", "p95", lambda row: row.wait(0.95)),
                Line("l2", "p50", lambda row: row.wait(0.5)),
            ],
            round_up_seconds,
            duration,
        ),
        lines(
            rows,
            "Running on average",
            [Line("l0", "running", lambda row: row.worker_seconds / row.seconds)],
        ),
    ]
