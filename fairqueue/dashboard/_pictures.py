"""Pictures of the last hour, as SVG: areas of shares, and lines of what waits.

An SVG stretches to its frame, so it has no text; the labels around it are HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log10

from markupsafe import Markup

from fairqueue.rows import Sample, WorkspaceSample

SPAN_SECONDS = 3600.0
GAP_SECONDS = 100.0
"""Without a sample for longer, the picture has a gap."""
WIDTH, HEIGHT = 720.0, 100.0
COLOURS = 7
"""Workspaces with a colour of their own; the others share one."""
Point = tuple[float, float]
Value = Callable[[Sample], float]


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

    svg: Markup
    top: float
    legend: tuple[Entry, ...] = ()
    is_empty: bool = False


def _x(at: float, now: float) -> float:
    return round(WIDTH * (1 - (now - at) / SPAN_SECONDS), 1)


def _runs(samples: Sequence[Sample], now: float) -> Iterator[list[Sample]]:
    """Yield samples that follow each other without a gap."""
    run: list[Sample] = []
    for sample in samples:
        if now - sample.time > SPAN_SECONDS:
            continue
        if run and sample.time - run[-1].time > GAP_SECONDS:
            yield run
            run = []
        run.append(sample)
    if run:
        yield run


def _area(tops: Sequence[Point], bottoms: Sequence[Point], css: str) -> str:
    """An area between two lines; a single point becomes a bar, so that it can be seen."""
    if len(tops) == 1:
        (x, high), low = tops[0], bottoms[0][1]
        tops, bottoms = [(x - 3, high), (x, high)], [(x - 3, low), (x, low)]
    points = " ".join(f"{x:g},{y:g}" for x, y in [*tops, *reversed(bottoms)])
    return f'<polygon class="{css}" points="{points}"/>'


def _line(points: Sequence[Point], css: str) -> str:
    return f'<polyline class="{css}" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>'


def _svg(title: str, shapes: Iterator[str]) -> Markup:
    """A picture; what is in it are numbers and classes, never a name."""
    lines = "".join(
        f'<line class="grid" x1="0" x2="{WIDTH:g}" y1="{y:g}" y2="{y:g}"/>'
        for y in (0.0, HEIGHT / 2, HEIGHT)
    )
    return Markup(  # noqa: S704 - made of numbers and of this module's own words
        f'<svg class="picture" role="img" aria-label="{title}" preserveAspectRatio="none" '
        f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}">{lines}{"".join(shapes)}</svg>'
    )


def span(begin: float, end: float) -> Markup:
    """A bar from one part of the whole to another, such as 0.25 and 0.5."""
    width = max(0.01, end - begin)
    return Markup(  # noqa: S704 - made of numbers
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="back" width="100" height="8"/><rect class="fill" '
        f'x="{100 * min(begin, 1 - width):.1f}" width="{100 * width:.1f}" height="8"/></svg>'
    )


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


def _running(sample: Sample) -> dict[str, int]:
    return {row.workspace: row.running for row in sample.workspaces if row.running}


def shares(samples: Sequence[Sample], now: float) -> Picture:
    """Areas one upon the other: the part that each workspace has of what runs."""
    totals = Counter[str]()
    of_all = 0
    for sample in samples:
        totals.update(_running(sample))
        of_all += sample.running
    named = [name for name, _ in totals.most_common(COLOURS)]
    svg = _svg("Shares of the running jobs in the last hour", _layers(samples, now, named))
    legend = [Entry(f"c{n}", name, totals[name] / max(1, of_all)) for n, name in enumerate(named)]
    others = of_all - sum(totals[name] for name in named)
    legend += [Entry("other", None, others / of_all)] if others else []
    return Picture(svg, 1.0, tuple(legend), is_empty=not of_all)


def _layers(samples: Sequence[Sample], now: float, named: Sequence[str]) -> Iterator[str]:
    for run in _runs(samples, now):
        below = [0.0] * len(run)
        for n, name in enumerate([*named, None]):
            above = [
                low + (_part(sample, name) if name else _rest(sample, named))
                for low, sample in zip(below, run, strict=True)
            ]
            css = "other" if name is None else f"c{n}"
            if above != below:
                yield _area(_points(run, now, above), _points(run, now, below), css)
            below = above


def _part(sample: Sample, name: str) -> float:
    return _running(sample).get(name, 0) / max(1, sample.running)


def _rest(sample: Sample, named: Sequence[str]) -> float:
    shown = _running(sample)
    return max(0, sample.running - sum(shown.get(name, 0) for name in named)) / max(
        1, sample.running
    )


def _points(run: Sequence[Sample], now: float, values: Sequence[float]) -> list[Point]:
    """Place values between 0 and 1."""
    heights = (round(HEIGHT * (1 - value), 2) for value in values)
    return [(_x(sample.time, now), y) for sample, y in zip(run, heights, strict=True)]


def lines(
    samples: Sequence[Sample],
    now: float,
    title: str,
    value: Value,
    scale: Callable[[float], float] = round_up,
) -> Picture:
    """One line, with a tinted area below it."""
    top = scale(max(map(value, samples), default=0.0))
    return Picture(
        _svg(title, _curve(samples, now, value, top)),
        top,
        is_empty=not any(value(sample) for sample in samples),
    )


def _curve(samples: Sequence[Sample], now: float, value: Value, top: float) -> Iterator[str]:
    for run in _runs(samples, now):
        values = [value(sample) / top for sample in run]
        points = _points(run, now, values)
        yield _area(points, _points(run, now, [0.0] * len(run)), "tint")
        yield _line(points, "line")


def of_workspace(sample: Sample, name: str) -> WorkspaceSample:
    """A workspace's part of a sample; zeros, where it is not in it."""
    found = (row for row in sample.workspaces if row.workspace == name)
    return next(found, WorkspaceSample(name, 0, 0, None))


def bar(value: float, mark: float | None = None) -> Markup:
    """A bar of the length ``value``, of 1, with a mark at the one that would be fair."""
    tick = "" if mark is None else f'<rect class="tick" x="{_clip(mark) - 0.6:.1f}" width="1.2"'
    tick += ' y="0" height="8"/>' if tick else ""
    return Markup(  # noqa: S704 - made of numbers
        '<svg class="bar" aria-hidden="true" viewBox="0 0 100 8" preserveAspectRatio="none">'
        '<rect class="back" width="100" height="4" y="2" rx="2"/>'
        f'<rect class="fill" width="{_clip(value):.1f}" height="4" y="2" rx="2"/>{tick}</svg>'
    )


def _clip(value: float) -> float:
    return 100 * min(1.0, max(0.0, value))
