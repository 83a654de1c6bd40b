"""The picture of the demo: waits per workspace over time, a panel for each broker."""

from __future__ import annotations

from collections.abc import Sequence

from fairqueue.demo import _svg
from fairqueue.demo._load import Load
from fairqueue.demo._panel import Axes, Palette, panel
from fairqueue.demo._run import Run

WIDTH = 1000
TOP = 132
PANEL = 290
FOOT = 34
INK, PALE = "#1f2933", "#5f6c7b"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def picture(load: Load, runs: Sequence[Run]) -> str:
    """One self-contained SVG. Every panel has the same axes, so heights can be compared."""
    height = TOP + PANEL * len(runs) + FOOT
    palette = Palette([customer.name for customer in load.customers])
    axes = Axes.holding(runs)
    panels = [
        panel(run, load, axes, palette, top=TOP + PANEL * number) for number, run in enumerate(runs)
    ]
    body = [_paper(height), _heading(load), _legend(load, palette), *panels, _foot(height)]
    return _svg.element(
        "svg",
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        font_family=FONT,
        font_size=13,
        fill=INK,
        role="img",
    )


def _paper(height: int) -> str:
    title = _svg.element("title", "Waits per workspace over time, on redis:// and on fairqueue://")
    return title + _svg.rect(0, 0, WIDTH, height, rx=10, fill="#ffffff")


def _heading(load: Load) -> str:
    big, *small = load.customers
    jobs = sorted({customer.jobs for customer in small})
    each = "–".join(f"{count}" for count in (jobs if len(jobs) < 2 else [jobs[0], jobs[-1]]))  # noqa: PLR2004
    subtitle = (
        f"{big.jobs:,} jobs of {big.name}, then {each} jobs of each small workspace. "
        f"One Celery worker, {load.concurrency} processes, {load.job_seconds * 1000:.0f} ms a job. "
        "Only the broker URL differs."
    )
    headline = "One workspace floods the queue. How long do the others wait?"
    return _svg.text(40, 46, headline, font_size=23, font_weight=700) + _svg.text(
        40, 71, subtitle, fill=PALE
    )


def _legend(load: Load, palette: Palette) -> str:
    parts, x = [], 46.0
    for customer in load.customers:
        name = customer.name if len(customer.name) <= 24 else customer.name[:23] + "…"  # noqa: PLR2004
        label = f"{name} ({customer.jobs:,} jobs)"
        parts.append(_svg.dot(x, 98, r=5.5, fill=palette[customer.name]))
        parts.append(_svg.text(x + 11, 102.5, label))
        x += 36 + 6.7 * len(label)
    return "".join(parts)


def _foot(height: int) -> str:
    words = "Dot: a job of a small workspace starts. Line: how long it waited. Grey: the flood."
    return _svg.text(40, height - 15, words, fill=PALE, font_size=12)
