"""Plays the fairness table on real scripts and writes its page and its picture into the docs.

python -m tests.fairness.report [SECONDS]     how long each phase is measured; 600
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import redis

from fairqueue import Limits
from fairqueue._stores.redis import RedisStore
from fairqueue.demo import _svg as svg
from fairqueue.testing import ManualClock, embedded_redis
from tests.fairness.fleet import Fleet
from tests.fairness.scenarios import Fleets
from tests.fairness.table import SLOTS, Row, rows

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = 600.0
SHOWN = 4  # workspaces of a row in the picture

PAGE = """\
# How fair it is

A simulated fleet of {slots} worker slots plays each scenario on the real scripts in a real Redis; only the time is moved.
`make fairness` plays them again and writes this page; a short form is a test.
Each phase was measured for {seconds:g} s, those with jobs of 20 s for twice that.
Where nothing else is said, jobs take 1 s on average, with lengths from an exponential distribution; those of the minted workspaces and of the trickle take 1 s each.

![The share of each workspace, and the fair one](fairness.svg)

| scenario | share off by at most | lag | its bound | unserved beside a free slot |
|---|---|---|---|---|
{table}

**Share**: worker-seconds of each workspace against its weighted max-min share: what is reserved is given first, the rest is shared out by weight, and what one cannot use, by a limit, a rate or for want of jobs, goes to the others. The figure is the largest difference of any workspace, in percentage points of all worker-seconds.
**Lag**: how far the worker-seconds per weight of two workspaces that stayed runnable drifted apart since the phase began; the bound is (slots + 1) × (c₁/w₁ + c₂/w₂), where c is a workspace's longest job and w its weight. Every pair of the first six is compared, four times a second. There is no figure where fewer than two stayed runnable.
**Unserved**: the longest time that a slot was free beside a job that might have run.
A job of the trickle, or of r while its slots were lent, waited {wait:.2g} s at most: until the next of {slots} slots was free.
"""  # noqa: E501 - one sentence per line


def fleets_on(client: redis.Redis) -> Fleets:
    """Fleets, each on a namespace of its own."""

    def make(pools: Sequence[tuple[str, int]] = (("q", SLOTS),), **limits: Limits) -> Fleet:
        clock = ManualClock()
        store = RedisStore(client, namespace=f"t-{secrets.token_hex(6)}", clock=clock)

        def has_token(queue: str) -> bool:
            return bool(client.exists(store.keys.key("token", queue)))

        return Fleet(store, clock, has_token, pools, limits)

    return make


def line(row: Row) -> str:
    """One row of the table."""
    lag, bound = (f"{n:.1f} s" for n in row.lag) if row.lag else ("–", "–")
    off = f"{100 * row.furthest:.2f}"
    return f"| {row.name} | {off} | {lag} | {bound} | {row.window.unserved_seconds:g} s |"


def page(found: Sequence[Row], seconds: float) -> str:
    """The whole page."""
    wait = max(row.longest_wait or 0.0 for row in found)
    table = "\n".join(map(line, found))
    return PAGE.format(slots=SLOTS, seconds=seconds, table=table, wait=wait)


WIDTH, LEFT, RIGHT, HEAD, BAR, GAP = 860, 380, 40, 44, 9, 14
INK, MUTED, MEASURED, FAIR = "#24292f", "#6e7781", "#4878a8", "#c2410c"


def picture(found: Sequence[Row]) -> str:
    """A bar for what each workspace had, a mark where its fair share ends."""
    parts, y = [], float(HEAD)
    for row in found:
        parts.append(svg.text(12, y + BAR, row.name, font_size=12, fill=INK))
        if len(row.tenants) > SHOWN:
            rest = f"{SHOWN} of {len(row.tenants):,} workspaces are shown"
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
    """The first few of a row's workspaces; many are alike."""
    return [tenant.name for tenant in row.tenants[:SHOWN]]


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
    """Play, print and write."""
    found = []
    with embedded_redis() as server, server.client() as client:
        for row in rows(fleets_on(client), seconds):
            sys.stdout.write(line(row) + "\n")
            sys.stdout.flush()
            found.append(row)
    (DOCS / "fairness.md").write_text(page(found, seconds))
    (DOCS / "fairness.svg").write_text(picture(found))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
