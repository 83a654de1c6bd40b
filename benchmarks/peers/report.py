"""The page of a run: what is better elsewhere first, then tables and a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from peers.catalogue import LIMIT, PEERS, SLOTS, Peer
from peers.environments import ROOT
from tests import svg

DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Column:
    """One figure: its heading, its key in the results, how it is written, and what is better."""

    heading: str
    key: str
    form: Callable[[float], str]
    more_is_better: bool = False


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _ratio(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


FLOOD = Column("s until all light jobs have begun", "flood s", _number)
JAIN = Column("Jain's index", "jain", _ratio, more_is_better=True)
ISOLATION = Column("isolation", "isolation", _number)
RATE = Column("jobs/s", "jobs /s", _number, more_is_better=True)
WAITS = (
    Column("wait alone, p99 ms", "alone p99 ms", _number),
    Column("wait beside, p99 ms", "beside p99 ms", _number),
)
FAIRNESS = (
    FLOOD,
    JAIN,
    Column("slots in use", "slots in use", _ratio, more_is_better=True),
    *WAITS,
    ISOLATION,
)
SPEED = (
    RATE,
    Column("published/s", "published /s", _number, more_is_better=True),
    Column("start of a lone job, ms", "start ms", _number),
    Column("bytes per waiting job", "bytes per job", _number),
    Column("memory of the worker, MB", "worker MB", _number),
)

PAGE = """\
# fairqueue beside its peers

{peers} ways to run jobs, in one run, each with {slots} worker slots, on the same machine.
`make peers` plays them again and writes this page: it installs each peer in an environment of its own, below `.peers/`.

This run began on {began}, on {machine}; other programs used the machine too, at a load of {load} (the median was {typical}).
So compare the figures with each other only.
Each is the median of {turns} turns, in which the peers alternated.
The jobs write their starts and ends to a file, and the figures are worked out from that file alone.

## What is better elsewhere

{better}
- PostgreSQL peers keep jobs on the disk, and in the transaction of your own data. Redis was played without persistence.
- DBOS resumes a workflow at its last step, and as soon as the killed executor is back; the others wait for a time-out.
- A queue for each workspace needs no library. It needs a list of the workspaces in each worker's command line, and has no limits, weights or capacities.
- Hatchet, and the groups of BullMQ Pro, are made for the same, and could [not be played](#not-played).

## The noisy neighbour

One workspace has {noisy:,} jobs, and nine have {light} each, of {ms:.0f} ms.

![How long the light workspaces wait, how equal the shares are, isolation and throughput, by peer](peers.svg)

{fairness}

- **Until all light jobs have begun**: all jobs wait before a stopped worker, the {noisy:,} first, then it goes on. Nothing was watched for longer than {patience:g} s: "–" is a figure that a peer which could not keep up does not have.
- **Jain's index** of the first {shown} starts: all workspaces have jobs for so long and all jobs are alike, so the max-min share of each is an equal part. 1 is that share, 0.1 is everything for one workspace.
- **Slots in use**: of {slots}, in that time. A limit of {limit} leaves slots free where only one workspace has jobs.
- **Isolation**: the p99 wait of the light workspaces' jobs, published evenly within {paced:g} s, beside {beside:,} waiting jobs of the noisy one, divided by their p99 wait without these; and its smallest and largest value of a turn. The target is 1.5. A limit that leaves slots free for the others meets it, or comes near it: then a light job waits one to two milliseconds longer, since the processor is busier. Without a limit it is missed: alone, a light job begins within milliseconds, and beside the flood it waits for one of the running jobs of {ms:.0f} ms to end. Between the publish of a light job and its start, one job of the noisy workspace began on average.

## Speed and memory

{speed}

- **Jobs/s**: {backlog} waiting jobs that do nothing, from the first start to the last.
- **Start of a lone job**: from the call to the start, on an idle worker.
- **Bytes per waiting job**: what {noisy:,} jobs with three small arguments add to the server's data. PostgreSQL keeps finished jobs too.
- **Memory of the worker**: proportional (PSS), of all its processes. {slots} processes cost more than {slots} threads or one event loop, and are not stopped by each other's Python.

## After `kill -9`

Two workers run {slots} jobs of {killed:g} s each, and one of them is killed; of DBOS the only one, which starts again at once.
The figure is when all jobs that it ran or held have begun, played once, at {recovery_began}.
Each peer's own time-out was set to 10 s, if it has one; in production its default decides, and a time-out that nothing renews must be longer than the longest job.

{recovery}

If a killed worker was the only one, and the next one needs longer than half a lease to start, fairqueue takes that for an outage, and waits for one more lease.

## Versions and settings

{settings}

## Not played

{reasons}
"""  # noqa: E501 - one sentence per line


def write(found: dict[str, Any], docs: Path) -> None:
    """Write the page and its picture, if turns were played."""
    patience = found["sizes"]["patience"]
    played = {name: _medians(turns, patience) for name, turns in found["turns"].items()}
    peers = [peer for peer in PEERS if peer.name in played]
    if not peers:
        return
    (docs / "peers.md").write_text(_page(found, peers, played))
    (docs / "peers.svg").write_text(picture(peers, played))


def _medians(turns: Sequence[dict[str, float]], patience: float) -> dict[str, float]:
    """The medians of the turns; of a peer that cannot keep up, without those that mean nothing."""
    found = {key: median(turn[key] for turn in turns) for key in turns[0]}
    if found["beside p99 ms"] >= 1e3 * patience:
        found |= {"isolation": math.nan, "jain": math.nan}  # jobs of before are in the way
    return found


def _page(found: dict[str, Any], peers: list[Peer], played: dict[str, dict[str, float]]) -> str:
    sizes, load = found["sizes"], found["load"]
    return PAGE.format(
        peers=len(peers),
        slots=SLOTS,
        limit=LIMIT,
        began=found["began"],
        machine=found["machine"],
        load=f"{min(load):.1f} to {max(load):.1f}",
        typical=f"{median(load):.1f}",
        turns=" to ".join(map(str, sorted({len(turns) for turns in found["turns"].values()}))),
        better="\n".join(_better(peers, played)),
        noisy=sizes["noisy"],
        beside=sizes["beside"],
        light=sizes["light"],
        ms=1e3 * sizes["seconds"],
        patience=sizes["patience"],
        shown=int(0.9 * sizes["light"]) * 10,
        paced=sizes["paced_seconds"],
        backlog=sizes["backlog"],
        killed=sizes["killed_seconds"],
        recovery_began=found["recovery began"],
        fairness=_table(FAIRNESS, peers, played, found),
        speed=_table(SPEED, peers, played, found),
        recovery="\n".join(_recovery(peers, found)),
        settings="\n".join(_settings(peers, found["versions"])),
        reasons="\n".join(
            f"- {name}: {why}." for name, why in found["reasons"].items() if name not in played
        ),
    )


def _better(peers: list[Peer], played: dict[str, dict[str, float]]) -> Iterator[str]:
    """For each figure, the peers whose median is better than that of fairqueue on their library.

    A peer with a limit, and one without, are compared with each other's kind only.
    """
    for column in (*FAIRNESS, *SPEED):
        sign = 1 if column.more_is_better else -1
        for limited in (False, True):
            of = [(played[p.name][column.key], p) for p in peers if p.limited == limited]
            own = max((sign * value for value, p in of if p.ours), default=math.inf)
            ours = column.form(abs(own))
            ahead = sorted(
                (sign * -value, p.name)
                for value, p in of
                if not p.ours and sign * value > own and column.form(value) != ours
            )
            if ahead:
                listed = ", ".join(f"{name} {column.form(abs(value))}" for value, name in ahead)
                kind = f", with a limit of {LIMIT}" if limited else ""
                heading = column.heading[0].upper() + column.heading[1:]
                yield f"- {heading}{kind}: {listed}; fairqueue {ours}."


def _table(
    columns: Sequence[Column],
    peers: list[Peer],
    played: dict[str, dict[str, float]],
    found: dict[str, Any],
) -> str:
    lines = [f"| | {' | '.join(column.heading for column in columns)} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for peer in peers:
        turns = found["turns"][peer.name]
        cells = [_cell(column, played[peer.name], turns, found) for column in columns]
        name = f"**{peer.name}**" if peer.ours else peer.name
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(
    column: Column,
    figures: dict[str, float],
    turns: Sequence[dict[str, float]],
    found: dict[str, Any],
) -> str:
    value = figures[column.key]
    patience = found["sizes"]["patience"]
    cut = (column is FLOOD and value >= patience) or (column in WAITS and value >= 1e3 * patience)
    shown = ("> " if cut else "") + column.form(value)
    if column is ISOLATION and not math.isnan(value):
        ends = [column.form(of(turn[column.key] for turn in turns)) for of in (min, max)]
        return f"{shown} ({'–'.join(ends)})"
    return shown


def _recovery(peers: list[Peer], found: dict[str, Any]) -> Iterator[str]:
    patience = found["sizes"]["recovery_patience"]
    yield "| | its time-out | all have begun after |"
    yield "|---|---|---|"
    for peer in peers:
        of = found["recovery"].get(peer.name)
        if of:
            missing = int(of["not again"])
            said = f"{of['recovery s']:.0f} s" if of["recovery s"] else ""
            if missing:
                said = f"{said + '; ' if said else ''}{missing} had not after {patience:g} s"
            yield f"| {peer.name} | {peer.recovery} | {said} |"


def _settings(peers: list[Peer], versions: dict[str, str]) -> Iterator[str]:
    yield "| | versions | worker and settings |"
    yield "|---|---|---|"
    for peer in peers:
        yield f"| {peer.name} | {versions[peer.environment]} | {peer.settings} |"


WIDTH, NAMES, HEAD, ROW = 900, 220, 40, 18
INK, MUTED, OURS, OTHERS = "#24292f", "#6e7781", "#c2410c", "#4878a8"
SHOWN = (FLOOD, JAIN, ISOLATION, RATE)


def picture(peers: list[Peer], played: dict[str, dict[str, float]]) -> str:
    """Draw a row of bars for each peer, one for each figure, fairqueue's in another colour."""
    height = HEAD + ROW * len(peers) + 12
    parts = [svg.rect(0, 0, WIDTH, height, fill="#ffffff")]
    span = (WIDTH - NAMES) / len(SHOWN)
    for number, column in enumerate(SHOWN):
        left = NAMES + span * number
        log = ", log" if column in {ISOLATION, RATE} else ""
        parts.append(svg.text(left, 24, column.heading + log, font_size=10, fill=INK))
        parts += _bars(left, span - 50, column, [played[peer.name] for peer in peers], peers)
    for number, peer in enumerate(peers):
        at = HEAD + ROW * number + 11
        parts.append(svg.text(8, at, peer.name, font_size=11, fill=INK))
    style = {"xmlns": "http://www.w3.org/2000/svg", "font_family": "sans-serif"}
    size = {"width": WIDTH, "height": height, "viewBox": f"0 0 {WIDTH} {height}"}
    return svg.element("svg", *parts, **style, **size)


def _bars(
    left: float,
    width: float,
    column: Column,
    figures: Sequence[dict[str, float]],
    peers: list[Peer],
) -> Iterator[str]:
    log = column in {ISOLATION, RATE}
    values = [of[column.key] for of in figures]
    drawn = [0.0 if math.isnan(value) else value for value in values]
    lengths = [math.log10(max(1.0, value)) if log else value for value in drawn]
    longest = max(*lengths, 1e-9)
    for number, (value, length, peer) in enumerate(zip(values, lengths, peers, strict=True)):
        y = HEAD + ROW * number
        colour = OURS if peer.ours else OTHERS
        size = max(1.0, width * length / longest)
        yield svg.rect(left, y + 2, size, ROW - 7, fill=colour)
        yield svg.text(left + size + 4, y + 11, column.form(value), font_size=9, fill=MUTED)
