"""Plays the fairness table on real scripts and writes its page and its picture into the docs.

python -m tests.fairness.report [SECONDS]     SECONDS per phase; default 600
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairqueue._stores.redis import RedisEngine
from fairqueue.testing import embedded_redis
from tests import svg
from tests.fairness.fleet import SLOTS, fleets_on
from tests.fairness.table import Row, rows

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = 600.0
SHOWN = 4  # the most workspaces of a row in the picture

PAGE = """\
# How fair it is

A simulated fleet of {slots} worker slots runs each scenario on the real scripts in a real Redis; only the clock is simulated.
`make fairness` runs the scenarios again and writes this page; a short version runs as a test.
Each phase is measured for {seconds:g} s, or twice that with jobs of 20 s.
Unless the scenario says otherwise, durations are exponentially distributed with a mean of 1 s; with many workspaces of one owner, and in the trickle, each job takes exactly 1 s.

![The measured share of each workspace, and its fair share](fairness.svg)

| scenario | largest error of a share | lag | bound of the lag | runnable beside a free slot |
|---|---|---|---|---|
{table}

**Share**: the worker-seconds of each workspace, compared with its weighted max-min fair share.
In that share, reserves come first, and the rest is divided by weight.
A workspace that cannot use its part, because of a limit, a rate or a lack of jobs, leaves it to the others.
The figure is the largest difference of any workspace, in percentage points of all worker-seconds.

**Lag**: the largest difference in worker-seconds per weight between two workspaces that stayed runnable, since the phase began.
The bound is (slots + 1) × (c₁/w₁ + c₂/w₂), where c is a workspace's longest job and w its weight.
All pairs of the first six workspaces are compared, four times a second.
There is no figure if fewer than two workspaces stayed runnable.

**Runnable beside a free slot**: the longest time that a slot was free while a job was runnable.
A job of the trickle, or of r while its slots were lent, waited at most {wait:.2g} s: until the next of the {slots} slots was free.
"""  # noqa: E501 - one sentence per line


def line(row: Row) -> str:
    """Return one row of the table."""
    lag, bound = (f"{n:.1f} s" for n in row.lag) if row.lag else ("–", "–")
    off = f"{100 * row.furthest:.2f}"
    return f"| {row.name} | {off} | {lag} | {bound} | {row.window.unserved_seconds:g} s |"


def page(found: Sequence[Row], seconds: float) -> str:
    """Return the whole page."""
    wait = max(row.longest_wait or 0.0 for row in found)
    table = "\n".join(map(line, found))
    return PAGE.format(slots=SLOTS, seconds=seconds, table=table, wait=wait)


WIDTH, LEFT, RIGHT, HEAD, BAR, GAP = 860, 380, 40, 44, 9, 14
INK, MUTED, MEASURED, FAIR = "#24292f", "#6e7781", "#4878a8", "#c2410c"


def picture(found: Sequence[Row]) -> str:
    """Draw a bar for the share of each workspace, and a mark where its fair share ends."""
    parts, y = [], float(HEAD)
    for row in found:
        parts.append(svg.text(12, y + BAR, row.name, font_size=12, fill=INK))
        if len(row.members) > SHOWN:
            rest = f"{SHOWN} of {len(row.members):,} workspaces are shown"
            parts.append(svg.text(12, y + 2 * BAR + 5, rest, font_size=9, fill=MUTED))
        for name in shown(row):
            parts += _bar(y, name, row.measured[name], row.fair[name])
            y += BAR + 3
        y += GAP
    style = {"xmlns": "http://www.w3.org/2000/svg", "font_family": "sans-serif"}
    size = {"width": WIDTH, "height": round(y), "viewBox": f"0 0 {WIDTH} {round(y)}"}
    ground = svg.rect(0, 0, WIDTH, y, fill="#ffffff")
    return svg.element("svg", ground, *_legend(), *parts, **style, **size)


def shown(row: Row) -> list[str]:
    """Return the names of the first workspaces of a row; the others are like them."""
    return [member.name for member in row.members[:SHOWN]]


def _bar(y: float, name: str, measured: float, fair: float) -> Iterable[str]:
    scale = WIDTH - LEFT - RIGHT
    yield svg.text(LEFT - 8, y + BAR - 1, name, font_size=9, fill=MUTED, text_anchor="end")
    yield svg.rect(LEFT, y, max(0.5, scale * measured), BAR, fill=MEASURED)
    mark = LEFT + scale * fair
    yield svg.line(mark, y - 1, mark, y + BAR + 1, stroke=FAIR, stroke_width=2)


def _legend() -> Iterable[str]:
    yield svg.rect(LEFT, 14, 24, BAR, fill=MEASURED)
    yield svg.text(LEFT + 30, 14 + BAR, "share of worker-seconds", font_size=11, fill=INK)
    yield svg.line(LEFT + 200, 12, LEFT + 200, 14 + BAR + 2, stroke=FAIR, stroke_width=2)
    yield svg.text(LEFT + 208, 14 + BAR, "weighted max-min share", font_size=11, fill=INK)


def main(seconds: float) -> None:
    """Play the scenarios, print each row, and write the page and the picture."""
    found = []
    with embedded_redis() as server, server.client() as client:
        names = map("t-{}".format, itertools.count())
        fleets = fleets_on(lambda: RedisEngine(client, namespace=next(names)))
        for row in rows(fleets, seconds):
            sys.stdout.write(line(row) + "\n")
            sys.stdout.flush()
            found.append(row)
    (DOCS / "fairness.md").write_text(page(found, seconds))
    (DOCS / "fairness.svg").write_text(picture(found))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
