"""One panel of the picture: waits over time, figures beside it, order of starts below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairqueue.demo import _svg
from fairqueue.demo._figures import figures
from fairqueue.demo._ledger import Start
from fairqueue.demo._load import Load
from fairqueue.demo._run import Run

LEFT, RIGHT = 84, 715
DRAWN = 168
STRIP = 14
FLOOD = "#b9c0c9"
INK, PALE, GRID = "#1f2933", "#5f6c7b", "#e4e7eb"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc5fa0", "#b8860b", "#56b4e9")
"""The palette of Okabe and Ito, a little darker; colour-blind readers can tell them apart."""


class Palette:
    """A colour for each workspace. The first one, which floods the queue, is grey."""

    def __init__(self, names: Sequence[str]) -> None:
        small = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(names[1:])}
        self._colours = {names[0]: FLOOD, **small}

    def __getitem__(self, name: str) -> str:
        return self._colours.get(name, PALE)


@dataclass(frozen=True, slots=True)
class Axes:
    """Both axes, in seconds. Every panel uses the same axes."""

    most_time: float
    most_wait: float

    @classmethod
    def holding(cls, runs: Sequence[Run]) -> Axes:
        """Axes that fit every start of every run."""
        times = [start.started_at - run.began_at for run in runs for start in run.starts]
        waits = [start.wait_seconds for run in runs for start in run.starts]
        return cls(
            most_time=_svg.ceiling(max(times, default=1.0), about=8),
            most_wait=_svg.ceiling(max(waits, default=1.0)),
        )

    def x(self, seconds: float) -> float:
        """The x coordinate of a time."""
        return LEFT + (RIGHT - LEFT) * seconds / self.most_time

    def rise(self, seconds: float) -> float:
        """The height of a wait above the horizontal axis."""
        return DRAWN * seconds / self.most_wait


def panel(run: Run, load: Load, axes: Axes, palette: Palette, *, top: float) -> str:
    """The panel of one run, with its upper edge at ``top``."""
    base = top + 30 + DRAWN
    return "".join(
        [
            _svg.text(40, top + 12, run.title, font_size=15, font_weight=700),
            _grid(axes, base),
            _flood(run, load, axes, base),
            *(
                _waited(start, run, axes, palette, base)
                for start in run.starts
                if start.workspace != load.big
            ),
            _order(run, load, palette, base + 44),
            _table(run, load, palette, top + 34),
        ]
    )


def _grid(axes: Axes, base: float) -> str:
    rows = [_row(axes, seconds, base) for seconds in _svg.ticks(axes.most_wait)]
    columns = [
        _svg.text(axes.x(s), base + 17, f"{s:g}", fill=PALE, text_anchor="middle", font_size=12)
        for s in _svg.ticks(axes.most_time, about=8)
    ]
    middle = base - DRAWN / 2
    turned = f"rotate(-90 48 {middle:.0f})"
    label = {"fill": PALE, "font_size": 12, "text_anchor": "middle"}
    named = [
        _svg.text(48, middle, "wait before start (s)", transform=turned, **label),
        _svg.text((LEFT + RIGHT) / 2, base + 33, "seconds since the flood began", **label),
    ]
    return "".join([*rows, *columns, *named])


def _row(axes: Axes, seconds: float, base: float) -> str:
    y = base - axes.rise(seconds)
    number = _svg.text(LEFT - 8, y + 4, f"{seconds:g}", fill=PALE, text_anchor="end", font_size=12)
    return _svg.line(LEFT, y, RIGHT, y, stroke=GRID if seconds else PALE) + number


def _flood(run: Run, load: Load, axes: Axes, base: float) -> str:
    starts = [start for start in run.starts if start.workspace == load.big]
    if not starts:
        return ""
    thinned = [*starts[:: max(1, len(starts) // 240)], starts[-1]]
    line = [
        (axes.x(s.started_at - run.began_at), base - axes.rise(s.wait_seconds)) for s in thinned
    ]
    shape = [(line[0][0], base), *line, (line[-1][0], base)]
    return _svg.polygon(shape, fill=FLOOD, fill_opacity=0.35, stroke=FLOOD, stroke_width=1.5)


def _waited(start: Start, run: Run, axes: Axes, palette: Palette, base: float) -> str:
    """A dot at the start of a job, with a line as long as its wait."""
    x = axes.x(start.started_at - run.began_at)
    y = base - axes.rise(start.wait_seconds)
    colour = palette[start.workspace]
    came = axes.x(start.ordered_at - run.began_at)
    tail = _svg.line(came, y, x, y, stroke=colour, stroke_opacity=0.18)
    return tail + _svg.dot(x, y, r=3.6, fill=colour, fill_opacity=0.8)


def _order(run: Run, load: Load, palette: Palette, top: float) -> str:
    """Every start at its position, from the first to the last."""
    step = (RIGHT - LEFT) / max(1, load.jobs)
    marks = [
        _svg.rect(LEFT + step * position, top, max(step, 1.2), STRIP, fill=palette[start.workspace])
        for position, start in enumerate(run.starts)
        if start.workspace != load.big
    ]
    back = _svg.rect(LEFT, top, RIGHT - LEFT, STRIP, rx=2, fill=FLOOD, fill_opacity=0.35)
    words = "order of starts, first to last"
    label = _svg.text(RIGHT + 8, top + 11, words, fill=PALE, font_size=12)
    return "".join([back, *marks, label])


def _table(run: Run, load: Load, palette: Palette, top: float) -> str:
    found = figures(run.starts)
    head = {"fill": PALE, "font_size": 12, "text_anchor": "end"}
    rows = [
        _svg.text(882, top, "wait p50", **head),
        _svg.text(958, top, "p99", **head),
        _svg.line(745, top + 7, 960, top + 7, stroke=GRID),
    ]
    for number, customer in enumerate(load.customers[:7]):
        own = found.get(customer.name)
        shown = (f"{own.p50:.1f} s", f"{own.p99:.1f} s") if own else ("–", "–")
        rows.append(_figures_row(customer.name, shown, palette, top + 27 + 22 * number))
    return "".join(rows)


def _figures_row(name: str, shown: tuple[str, str], palette: Palette, y: float) -> str:
    short = name if len(name) <= 10 else name[:9] + "…"  # noqa: PLR2004 - fits the column
    p50, p99 = shown
    return "".join(
        [
            _svg.dot(751, y - 4.5, r=4.5, fill=palette[name]),
            _svg.text(762, y, short),
            _svg.text(882, y, p50, text_anchor="end", font_weight=700),
            _svg.text(958, y, p99, text_anchor="end"),
        ]
    )
