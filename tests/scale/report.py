"""Simulates fleets on many masters, and writes the page and the picture into the docs.

python -m tests.scale.report [--short] [--into FOLDER]     --short: seconds instead of minutes
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.scale.events import ROUND_TRIP_SECONDS
from tests.scale.experiments import BUSIER, LIGHT, Grid, play
from tests.scale.figures import Figures
from tests.scale.measuring import measure
from tests.scale.picture import picture
from tests.scale.prices import EIGHT, Prices
from tests.scale.scenarios import HASHED_MOST, HELD_MOST, Found
from tests.scale.text import PAGE

DOCS = Path(__file__).parents[2] / "docs"
PLAIN_SECONDS = 1e-6
"""A SET of 700 bytes among many, on the processors that the page is about: as in sizing.md."""

BEGIN, END = "<!-- make scale -->", "<!-- as far as that -->"
"""Between these marks the page on production has the summary."""

SHORT = Grid(
    masters=(1, 2),
    workspaces=(10, 1_000),
    waits_of=(10, 1_000),
    measured=(10, 100),
    rounds=1,
    calls=8,
    jobs=10,
    at=2,
    settles=(0.02, 0.03),
    shards_each=(1, 2),
    fleets=(1, 4),
    benchmark_seconds=0.02,
    parallel=1,
    is_short=True,
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rates(of: Figures) -> str:
    """Jobs per second in the long run, by masters and workspaces."""
    head = ["masters", *(f"{n:,} workspaces" for n in of.workspaces)]
    rows = [[str(m), *(_rate(of, m, n) for n in of.workspaces)] for m in of.masters]
    return table(head, rows)


def _rate(of: Figures, masters: int, workspaces: int) -> str:
    mark = "†" if of.is_between(masters, workspaces) else ""
    mark = "\\*" if of.is_extrapolated(masters, workspaces) else mark
    return f"{_round(of.rate(masters, workspaces))}{mark}"


def _round(value: float) -> str:
    return f"{round(value, -2 if value < 100_000 else -3):,.0f}"


def evenness(of: Figures) -> str:
    """How uneven the hash is, and what masters carry beside that."""
    head = ["masters", *(f"{n:,}" for n in of.workspaces)]
    rows = [
        [str(m), *(f"{of.spread(m, n).largest:.2f}" for n in of.workspaces)]
        for m in of.masters
        if m > 1
    ]
    return table(head, rows)


def calls(of: Figures) -> str:
    """What a job costs in calls, where masters are full and where slots are free."""
    head = ["masters", "full: claims per job", "looks per job", "light: claims per job"]
    head += ["calls in all", "masters are busy for"]
    crowd = of.grid.waits_of[-1]
    rows = []
    for m in of.masters:
        full, light = of.full(m, of.workspaces[-1]), of.pick("light", m, crowd)
        rows.append([str(m), *_per_job(full)[:2], _per_job(light)[0], _per_job(light)[2]])
        rows[-1].append(f"{100 * light.mean_busy:.0f} %")
    return table(head, rows)


def _per_job(one: Found) -> list[str]:
    jobs = max(1, one.jobs)
    return [f"{each / jobs:.2f}" for each in (one.claims, one.looks, one.calls)]


def waits(of: Figures) -> str:
    """Waits with free slots, by masters."""
    head = ["masters", *(f"{n:,} workspaces" for n in of.grid.waits_of)]
    head += [f"{of.grid.waits_of[-1]:,}, {BUSIER:.0f} jobs/s each"]
    rows = []
    for m in of.masters:
        light = {n: one for n in of.grid.waits_of for one in of.find("light", m, n)}
        found = [light.get(n) for n in of.grid.waits_of]
        busier = next(iter(of.find("busier", m, of.grid.waits_of[-1])), None)
        rows.append([str(m), *map(_wait, [*found, busier])])
    return table(head, rows)


def _wait(one: Found | None) -> str:
    if one is None:
        return "–"
    return f"{1e3 * one.wait(0.5):.1f} · {1e3 * one.wait(0.99):.1f} ms"


def shards(of: Figures) -> str:
    """More shards on the same masters."""
    head = ["shards on each master", "jobs/s, full", "claims per job", "median wait, light"]
    pairs = zip(of.of("shards"), of.of("shards, light"), strict=True)
    rows = [
        [
            str(full.load.all_shards // full.load.masters),
            _round(full.rate),
            _per_job(full)[0],
            f"{1e3 * light.wait(0.5):.1f} ms",
        ]
        for full, light in pairs
    ]
    return table(head, rows)


def processes(of: Figures) -> str:
    """How many processes it takes to fill masters."""
    head = ["processes for each master", "slots in all", "jobs/s", "masters are busy for"]
    rows = [
        [
            str(one.load.processes),
            str(one.load.processes * one.load.masters * one.load.slots),
            _round(one.rate),
            f"{100 * one.mean_busy:.0f} %",
        ]
        for one in of.of("processes")
    ]
    return table(head, rows)


def settled(of: Figures) -> str:
    """What uneven shards carry after a while."""
    head = ["after", "jobs/s", "masters are busy for, each"]
    load = of.of("settled")[0].load
    rows = [
        [
            f"{one.load.warm:g} s",
            _round(one.rate),
            ", ".join(f"{100 * part:.0f} %" for part in sorted(one.busy, reverse=True)),
        ]
        for one in [of.full(load.masters, load.workspaces), *of.of("settled")]
    ]
    return table(head, rows)


def longer(of: Figures) -> str:
    """Jobs that last longer than a process stays on a shard."""
    head = ["masters", "jobs/s with jobs of 5 ms", "claims per job", "of 200 ms", "claims per job"]
    rows = []
    for one in of.of("long"):
        short = of.full(one.load.masters, one.load.workspaces)
        long = [_round(one.rate), _per_job(one)[0]]
        rows.append([str(one.load.masters), _round(short.rate), _per_job(short)[0], *long])
    return table(head, rows)


def prices(of: Prices) -> str:
    """What calls cost."""
    kinds = {
        "publish": "publish",
        "claim of 1 that ends 1": "both 1, told",
        "claim of 8 that ends 8": "both 8, told",
        "claim that finds none": "empty, told",
        "look (`stands`)": "stands",
        "renewal of 8": "renew 8",
        "wait for a token, begun and ended": "wait and unblock",
    }
    head = ["call", *(f"{each.workspaces:,}" for each in of.measured), "10 million\\*"]
    rows = [
        [words, *(_micros(each.server[kind]) for each in of.measured), _micros(of.at(1e7)[kind])]
        for words, kind in kinds.items()
    ]
    return table(head, rows)


def _micros(seconds: float) -> str:
    return f"{1e6 * seconds:.0f}"


def ratio(of: Figures, slots: int) -> float:
    """Return what three servers carry, of what one does, as benchmarks/shards.py works it out."""
    one, three = (found.jobs / max(found.busy) for found in of.of(f"by {slots}"))
    return three / one


def page(of: Figures, raw: Prices) -> str:
    """Return the whole page."""
    largest, most, few = of.masters[-1], of.workspaces[-1], of.workspaces[0]
    one, all_of = of.rate(1, most), of.rate(largest, most)
    look = of.prices.at(1)["stands"]
    most_full = of.full(largest, most)
    fill = of.grid.filled(1, workspaces=few)
    return PAGE.format(
        rates=rates(of), evenness=evenness(of), calls=calls(of), waits=waits(of),
        shards=shards(of), processes=processes(of), longer=longer(of), prices=prices(of.prices),
        one=_round(one), all=_round(all_of), times=f"{all_of / one:.0f}", largest=largest,
        few=few, few_rate=_round(of.rate(largest, few)), few_one=_round(of.rate(1, few)),
        spread=f"{of.spread(largest, 1_000).largest:.1f}", at=of.grid.at,
        settled=settled(of), rule=_round(of.rate(of.grid.at, 10)),
        by_eight=f"{ratio(of, EIGHT):.1f}", by_one=f"{ratio(of, 1):.1f}",
        plain=f"{1e6 * raw.plain:.1f}", cores=os.cpu_count(),
        factor=f"{PLAIN_SECONDS / raw.plain:.2f}", held=HELD_MOST, hashed=f"{HASHED_MOST:,}",
        each=f"{of.prices.bytes_each:,.0f}", gigabytes=f"{1e7 * of.prices.bytes_each / 1e9:.0f}",
        part=f"{1e7 * of.prices.bytes_each / 1e9 / largest:.2f}", most=f"{of.prices.most:,}",
        look=_micros(look), full_of_looks=_round(1 / look), tenth=_round(0.1 / look),
        client=_micros(of.prices.client), client_end=_micros(of.prices.client_end),
        trip=f"{1e3 * ROUND_TRIP_SECONDS:g}",
        light=f"{LIGHT:.0f}", busier=f"{BUSIER:.0f}", first_wait=_wait_of(of, 1),
        last_wait=_wait_of(of, largest), empties=_per_job(of.pick("light", largest, most))[0],
        busy=f"{100 * of.pick('light', largest, most).mean_busy:.0f}",
        window=f"{1e3 * most_full.load.seconds:.0f}–{1e3 * fill.seconds:.0f}",
        all_most=of.grid.all_most, fill_processes=fill.processes, fill_slots=fill.slots,
    )  # fmt: skip


def summary(of: Figures) -> str:
    """Return what the page on production says."""
    crowds = [of.workspaces[0], *(n for n in of.workspaces[2::4])]
    head = ["servers", *(f"jobs/s, {n:,} workspaces" for n in crowds), "wait: median · 99 %"]
    rows = [
        [str(m), *(_rate(of, m, n) for n in crowds), _wait(of.pick("light", m, of.workspaces[-1]))]
        for m in of.masters[::2]
    ]
    return table(head, rows)


def inserted(text: str, of: Figures) -> str:
    """Return a page with the summary between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{begin}\n{summary(of)}\n{end}{after}"


def _wait_of(of: Figures, masters: int) -> str:
    return f"{1e3 * of.pick('light', masters, of.workspaces[-1]).wait(0.5):.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, simulate, and write the page and the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="little of all, within seconds")
    parser.add_argument("--into", type=Path, default=DOCS, help="the folder of the documentation")
    given = parser.parse_args(arguments)
    grid = SHORT if given.short else Grid()
    raw = measure(grid.measured, rounds=grid.rounds, calls=grid.calls)
    scaled = raw.scaled(PLAIN_SECONDS)
    sys.stdout.write(f"a SET takes {1e6 * raw.plain:.2f} µs here\n")
    write(Figures(grid, scaled, play(grid, scaled)), raw, given.into)


def write(of: Figures, raw: Prices, into: Path) -> None:
    """Write both files."""
    (into / "operate").mkdir(parents=True, exist_ok=True)
    (into / "operate" / "scale.md").write_text(page(of, raw))
    (into / "scale.svg").write_text(picture(of))
    production = into / "production.md"
    if production.exists():
        production.write_text(inserted(production.read_text(), of))


if __name__ == "__main__":
    main()
