"""The picture of the demo: waits over time as one SVG, a panel for each broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from fairqueue.demo._starts import COLOURS, FLOOD, JOB_SECONDS, PROCESSES, SMALL, Run, percentile

TOP, PANEL, FOOT = 132, 290, 34
LEFT, RIGHT, DRAWN = 84, 715, 168
PALE, GRID = "#5f6c7b", "#e4e7eb"
SMALLER = f'font-size="12" fill="{PALE}"'
MIDDLE, END, BOLD = 'text-anchor="middle"', 'text-anchor="end"', 'font-weight="700"'


def picture(runs: Sequence[Run]) -> str:
    """One self-contained SVG. Every panel has the same axes, so heights can be compared."""
    height = TOP + PANEL * len(runs) + FOOT
    starts = [(run.began_at, start) for run in runs for start in run.starts]
    times = _ticks(max((start.started_at - at for at, start in starts), default=1.0), about=8)
    waits = _ticks(max((start.wait_seconds for _, start in starts), default=1.0), about=5)
    panels = (
        part for n, run in enumerate(runs) for part in _panel(run, TOP + PANEL * n, times, waits)
    )
    return "\n".join([*_head(runs[0].load, height), *panels, "</svg>\n"])


def _head(load: dict[str, int], height: int) -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 {height}" width="1000" '
    yield f'height="{height}" font-size="13" fill="#1f2933" role="img" '
    yield "font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">"
    yield "<title>Waits per workspace over time, on redis:// and on fairqueue://</title>"
    yield f'<rect width="1000" height="{height}" rx="10" fill="#ffffff"/>'
    headline = "One workspace floods the queue. How long do the others wait?"
    yield _text(40, 46, headline, f'font-size="23" {BOLD}')
    load_words = f"{load[FLOOD]:,} jobs of {FLOOD}, then {load[SMALL[0]]} of each small workspace."
    worker_words = f"One Celery worker, {PROCESSES} processes, {JOB_SECONDS * 1000:.0f} ms a job."
    yield _text(
        40, 71, f"{load_words} {worker_words} Only the broker URL differs.", f'fill="{PALE}"'
    )
    for x, (name, colour) in zip((46, 223, 346, 469, 592), COLOURS.items(), strict=True):
        label = f"{name} ({load[name]:,} jobs)"
        yield _dot(x, 98, 5.5, colour) + _text(x + 11, 102.5, label)
    words = "Dot: a job of a small workspace starts. Line: how long it waited. Grey: the flood."
    yield _text(40, height - 15, words, SMALLER)


def _panel(run: Run, top: float, times: Sequence[float], waits: Sequence[float]) -> Iterator[str]:
    base = top + 30 + DRAWN

    def x(at: float) -> float:
        return LEFT + (RIGHT - LEFT) * (at - run.began_at) / times[-1]

    def y(wait: float) -> float:
        return base - DRAWN * wait / waits[-1]

    yield _text(40, top + 12, run.title, f'font-size="15" {BOLD}')
    for tick in waits:
        yield _line(LEFT, RIGHT, y(tick), GRID if tick else PALE)
        yield _text(LEFT - 8, y(tick) + 4, f"{tick:g}", f"{SMALLER} {END}")
    for tick in times:
        yield _text(x(run.began_at + tick), base + 17, f"{tick:g}", f"{SMALLER} {MIDDLE}")
    turned = f'{SMALLER} {MIDDLE} transform="rotate(-90 48 {base - DRAWN / 2})"'
    yield _text(48, base - DRAWN / 2, "wait before start (s)", turned)
    yield _text(400, base + 33, "seconds since the flood began", f"{SMALLER} {MIDDLE}")
    flood = [start for start in run.starts if start.workspace == FLOOD]
    points = [
        f"{x(s.started_at):.1f},{y(s.wait_seconds):.1f}" for s in flood[:: len(flood) // 240 + 1]
    ]
    if flood:
        ends = [f"{x(start.started_at):.1f},{base}" for start in (flood[-1], flood[0])]
        yield f'<polygon points="{" ".join(points + ends)}" fill="{COLOURS[FLOOD]}" opacity="0.5"/>'
    for start in (start for start in run.starts if start.workspace != FLOOD):
        at, height, colour = x(start.started_at), y(start.wait_seconds), COLOURS[start.workspace]
        yield _line(x(start.ordered_at), at, height, colour, 'stroke-opacity="0.18"')
        yield _dot(at, height, 3.6, colour)
    yield from _order(run, base + 44)
    yield from _table(run, top + 34)


def _order(run: Run, top: float) -> Iterator[str]:
    """Every start at its position, from the first to the last."""
    step = (RIGHT - LEFT) / run.jobs
    bar = '<rect x="{:.1f}" y="{}" width="{:.1f}" height="14" fill="{}"/>'
    yield bar.format(LEFT, top, RIGHT - LEFT, GRID)
    for name in SMALL:
        for position in run.positions(name):
            yield bar.format(LEFT + step * (position - 1), top, max(step, 1.2), COLOURS[name])
    yield _text(RIGHT + 8, top + 11, "order of starts, first to last", SMALLER)


def _table(run: Run, top: float) -> Iterator[str]:
    yield _text(882, top, "wait p50", f"{SMALLER} {END}")
    yield _text(958, top, "p99", f"{SMALLER} {END}") + _line(745, 960, top + 7, GRID)
    for n, (name, colour) in enumerate(COLOURS.items()):
        y, waits = top + 27 + 22 * n, run.waits(name)
        p50, p99 = (f"{percentile(waits, p):.1f} s" if waits else "–" for p in (0.5, 0.99))
        yield _dot(751, y - 4.5, 4.5, colour) + _text(762, y, name)
        yield _text(882, y, p50, f"{END} {BOLD}") + _text(958, y, p99, END)


def _ticks(most: float, *, about: int) -> list[float]:
    """About ``about`` round values, from 0 to one that is not below ``most``."""
    rough = max(most, 1e-3) / about
    power = 10.0 ** floor(log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * 0.999)
    return [step * n for n in range(ceil(most / step) + 1)]


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def _line(x1: float, x2: float, y: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y:.1f}" x2="{x2:.1f}" y2="{y:.1f}" stroke="{colour}" {more}/>'


def _dot(x: float, y: float, r: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{colour}"/>'
