"""Draws jobs per second and waits, against masters and against workspaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, log10

from tests import svg
from tests.scale.figures import Figures

WIDTH, HEIGHT = 960, 830
LEFT, TOP, ACROSS, DOWN = 62, 118, 300, 270
"""Of the first chart; the others are as large."""
RIGHT_OF, BELOW = 480, 380
"""How far the charts are from each other."""
INK, MUTED, GRID = "#24292f", "#57606a", "#e5e8eb"
COLOURS = ("#0072b2", "#c2410c", "#1b7f4d", "#7b4fa3", "#8a6d00", "#57606a")
LABEL = 13
"""The least height between two labels."""

Point = tuple[float, float, bool]
"""Where it is, and whether it is extrapolated."""


@dataclass(frozen=True)
class Line:
    """Points that belong together, and what they are called at their end."""

    label: str
    points: Sequence[Point]
    colour: str
    dash: str = ""


@dataclass(frozen=True)
class Chart:
    """One chart: both axes are logarithmic."""

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    ticks: Sequence[float]
    left: float
    top: float

    @property
    def _ends(self) -> tuple[int, int]:
        """The powers of ten at the ends of the upright axis."""
        ys = [y for line in self.lines for _, y, _ in line.points if y > 0]
        low = floor(log10(min(ys)) + 1e-9)
        return low, max(low + 1, ceil(log10(max(ys)) - 1e-9))

    def x(self, value: float) -> float:
        """Return where a value of the level axis is."""
        first, last = log10(self.ticks[0]), log10(self.ticks[-1])
        return self.left + ACROSS * (log10(value) - first) / (last - first)

    def y(self, value: float) -> float:
        """Return where a value of the upright axis is."""
        low, high = self._ends
        return self.top + DOWN * (1 - (log10(max(value, 10.0**low)) - low) / (high - low))

    def draw(self) -> Iterator[str]:
        """Draw all."""
        style = {"font_size": 14, "font_weight": 700, "fill": INK}
        yield svg.text(self.left - 50, self.top - 34, self.title, **style)
        yield from self._axes()
        for line in self.lines:
            yield from self._line(line)
        yield from self._labels()

    def _axes(self) -> Iterator[str]:
        small = {"font_size": 11, "fill": MUTED}
        right, bottom = self.left + ACROSS, self.top + DOWN
        yield svg.text(self.left - 50, self.top - 14, self.up, **small)
        low, high = self._ends
        for power in range(low, high + 1):
            y = self.y(10.0**power)
            yield svg.line(self.left, y, right, y, stroke=GRID)
            yield svg.text(self.left - 8, y + 4, named(10.0**power), text_anchor="end", **small)
        for tick in self.ticks:
            x = self.x(tick)
            yield svg.line(x, bottom, x, bottom + 4, stroke=MUTED)
            yield svg.text(x, bottom + 18, named(tick), text_anchor="middle", **small)
        yield svg.line(self.left, bottom, right, bottom, stroke=MUTED)
        yield svg.text(
            (self.left + right) / 2, bottom + 36, self.across, text_anchor="middle", **small
        )

    def _line(self, line: Line) -> Iterator[str]:
        places = [(self.x(x), self.y(y), hollow) for x, y, hollow in line.points]
        drawn = {"stroke": line.colour, "stroke_width": 2}
        if line.dash:
            drawn["stroke_dasharray"] = line.dash
        for (x1, y1, _), (x2, y2, _) in itertools.pairwise(places):
            yield svg.line(x1, y1, x2, y2, **drawn)
        for x, y, hollow in places if not line.dash else ():
            fill = "#ffffff" if hollow else line.colour
            yield svg.dot(x, y, r=3.5, fill=fill, stroke=line.colour, stroke_width=1.5)

    def _labels(self) -> Iterator[str]:
        """Name each line at its end, and move names apart that would be over each other."""
        below = -inf
        for line in sorted(self.lines, key=lambda line: self.y(line.points[-1][1])):
            below = max(self.y(line.points[-1][1]), below + LABEL)
            x = self.x(line.points[-1][0]) + 9
            yield svg.text(x, below + 4, line.label, font_size=11, fill=line.colour)


def named(value: float) -> str:
    """Write a tick."""
    for much, letter in ((1e6, " M"), (1e3, " k")):
        if value >= much:
            return f"{value / much:g}{letter}"
    return f"{value:g}"


def charts(of: Figures) -> Iterable[Chart]:
    """Return the four charts."""
    masters, crowds = list(map(float, of.masters)), list(map(float, of.workspaces))
    places = [(LEFT + dx, TOP + dy) for dy in (0, BELOW) for dx in (0, RIGHT_OF)]
    axes = ("masters (servers), a shard on each", "workspaces with jobs")
    rate = "jobs per second in the long run"
    wait = "milliseconds from runnable to start, slots free"
    idle = "workspaces of which one has a job now and then"
    yield Chart("Jobs against masters", axes[0], rate, _by_crowd(of), masters, *places[0])
    yield Chart("Jobs against workspaces", axes[1], rate, _by_masters(of), crowds, *places[1])
    yield Chart("Wait against masters", axes[0], wait, _waits(of), masters, *places[2])
    yield Chart(
        "Wait against workspaces", idle, f"median {wait}", _waits_by_crowd(of), crowds, *places[3]
    )


def _by_crowd(of: Figures) -> list[Line]:
    shown = [n for n in of.workspaces if n <= 10_000 or n == of.workspaces[-1]]
    one = of.rate(1, shown[min(2, len(shown) - 1)])
    ideal = [(float(m), one * m, False) for m in of.masters]
    lines = [Line("as many times one", ideal, MUTED, "3 4")]
    for n, colour in zip(shown, COLOURS, strict=False):
        points = [(float(m), of.rate(m, n), of.is_worked_out(m, n)) for m in of.masters]
        lines.append(Line(f"{named(n)} workspaces", points, colour))
    return lines


def _by_masters(of: Figures) -> list[Line]:
    lines = []
    for masters, colour in zip(reversed(of.masters[::2]), COLOURS, strict=False):
        points = [
            (float(n), of.rate(masters, n), of.is_worked_out(masters, n)) for n in of.workspaces
        ]
        lines.append(Line(_plural(masters), points, colour))
    return lines


def _plural(masters: int) -> str:
    return f"{masters} master{'s' if masters > 1 else ''}"


def _waits(of: Figures) -> list[Line]:
    lines = []
    for part, name, dash in ((0.99, "99th percentile", "6 3"), (0.5, "median", "")):
        points = [(float(m), 1e3 * wait, False) for m, wait in of.waits("light", part)]
        lines.append(Line(name, points, COLOURS[0], dash))
    return lines


def _waits_by_crowd(of: Figures) -> list[Line]:
    lines = []
    for masters, colour in zip(reversed(of.masters[::2]), COLOURS, strict=False):
        found = of.waits_by_crowd(masters, 0.5)
        points = [(float(n), 1e3 * wait, False) for n, wait in found]
        lines.append(Line(_plural(masters), points, colour))
    return lines


def picture(of: Figures) -> str:
    """Draw all four."""
    parts = [svg.element("title", "Jobs per second and waits, against masters and workspaces")]
    parts.append(svg.rect(0, 0, WIDTH, HEIGHT, rx=10, fill="#ffffff"))
    parts += _head()
    for chart in charts(of):
        parts += chart.draw()
    box = {"width": WIDTH, "height": HEIGHT, "viewBox": f"0 0 {WIDTH} {HEIGHT}"}
    style = {"xmlns": "http://www.w3.org/2000/svg", "font_family": "system-ui, sans-serif"}
    return svg.element("svg", *parts, **style, **box, role="img")


def _head() -> Iterator[str]:
    title = "Simulated with the real scripts and measured script times"
    yield svg.text(12, 30, title, font_size=17, font_weight=700, fill=INK)
    yield svg.dot(18, 48, r=3.5, fill=MUTED)
    yield svg.text(28, 52, "simulated", font_size=12, fill=MUTED)
    yield svg.dot(128, 48, r=3.5, fill="#ffffff", stroke=MUTED, stroke_width=1.5)
    words = "worked out from what is simulated beside it, or with extrapolated script times"
    yield svg.text(138, 52, words, font_size=12, fill=MUTED)
