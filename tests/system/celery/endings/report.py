"""Prints the whole table, as the ledger saw it, and writes it into the docs.

python -m tests.system.celery.endings.report FILE     what the tests noted in FILE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.system.celery.endings.cells import (
    CELERY,
    NEWEST,
    OLDER,
    OLDEST,
    POOLS,
    VARIANTS,
    Absent,
    Entry,
    expected,
)
from tests.system.celery.endings.endings import ENDINGS

PAGE = Path(__file__).parents[4] / "docs" / "endings.md"

HEADINGS = {
    "early": "early ack",
    "late": "late ack",
    "early_lost": "early, reject on lost",
    "late_lost": "late, reject on lost",
}

INTRODUCTION = """\
# What happens when a task ends

Every pool of Celery, acked early (Celery's default) and late (`acks_late`), without and with `task_reject_on_worker_lost`, in every way in which a task, its process or its worker can end.
Real workers played each cell, and the tasks wrote a ledger outside the broker: this is what it saw.
`make endings` plays them again, prints this table and writes this page.
This one was played on {versions}.

A cell reads: **starts / ends** of the task's body, the state in the result backend, and the seconds from the last sign of life until the slot of the workspace was free.
An end is counted when the body was left by returning or raising; a killed process leaves none.
↻ means that it was delivered again, with `redelivered` set; "lost" that it was counted as lost, "dead" that it is among the dead letters.
"""  # noqa: E501 - one sentence per line

ON_OLDER = """\
The suite expects these cells there instead.
They are what that Celery does, on `redis://` as well, but for the cold shutdown: on `redis://` prefork loses a late-acked task to it, and gevent and eventlet run an early-acked one twice.
`make matrix TOX_ARGS="-e py310-celery53 -- -m 'long or not long' tests/system/celery/endings"` plays them on the oldest.
"""  # noqa: E501 - one sentence per line

CLOSING = """\
## What to know

- An ending that somebody sees frees the slot within a second; one that nobody sees (the main process killed or stopped) within the lease plus five seconds. The lease was 3 s here; it is 30 s by default.
- With `acks_late` alone, Celery acks a task whose child process died as failed; with `task_reject_on_worker_lost` it runs again, at most `max_deliveries` times.
- A task that was acked early is not run again, whatever happens: that is what an early ack means. The ack is sent as the task starts and is in Redis some milliseconds later, as on `redis://`: a whole worker that dies within them leaves a task that runs again.
- What expired while it waited is announced by a worker that looks every second or two.
- Stopped for longer than its lease, a worker has lost its late-acked tasks to another one. It stops its own runs where the pool can (prefork, eventlet, and gevent since Celery 5.5); elsewhere `fairqueue.current().lost` is true, and what such a run publishes is refused. Its write to the result backend is not prevented.
- A task over its `rate_limit` is given back until its turn, so that it holds no slot; it is then a redelivered one, though its body starts once.
- Out of memory, Celery's prefork and solo workers shut down. During a soft shutdown the main process of a prefork worker sleeps, and hears of its children when the time is over.
- On `redis://` prefork stores the same states, but for a late-acked task out of memory: the first run's FAILURE stays. A late-acked task whose worker was killed, or that raised `SystemExit` in threads or gevent, was not seen again there: it waits for the visibility timeout, an hour by default. A late-acked task that a cold shutdown cut off under gevent did not run again there either.
"""  # noqa: E501 - one sentence per line


Rows = dict[tuple[str, str, str], dict[str, Any]]


def seen_cells(path: Path) -> Rows:
    """What was noted, the newest of each cell."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["pool"], row["ending"], row["variant"]): row for row in rows}


def text(row: dict[str, Any] | None) -> str:
    """One cell."""
    if row is None:
        return "not played"
    marks = [
        *(["↻"] if row["redelivered"] else []),
        *(["lost"] if row["lost"] else []),
        *(["dead"] if row["dead"] else []),
    ]
    took = row["recovery"]
    slot = "no slot taken" if took is None else f"{max(took, 0) + 0.0:.1f} s"
    return " ".join([f"{row['starts']}/{row['ends']}", row["state"], *marks]) + f", {slot}"


def lines(pool: str, seen: Rows) -> Iterator[list[str]]:
    """The rows of one pool's table."""
    variants = VARIANTS if pool == "prefork" else VARIANTS[:2]
    yield ["ending", *(HEADINGS[variant] for variant in variants)]
    for name, ending in ENDINGS.items():
        if not isinstance(expected(pool, name, "early"), Absent):
            yield [ending.title, *(text(seen.get((pool, name, v))) for v in variants)]


def reasons(pool: str) -> Iterator[str]:
    """Why other cells do not exist."""
    absent: dict[str, list[str]] = {}
    for name, ending in ENDINGS.items():
        entry = expected(pool, name, "early")
        if isinstance(entry, Absent):
            absent.setdefault(entry.reason, []).append(ending.title)
    if pool != "prefork":
        entry = expected(pool, "success", "early_lost")
        assert isinstance(entry, Absent)
        absent.setdefault(entry.reason, []).append("`task_reject_on_worker_lost`")
    for reason, titles in absent.items():
        yield f"- {', '.join(titles)}: {reason}."


def played_on(seen: Rows) -> str:
    """The versions that the tests noted."""
    versions = sorted({row.get("versions", "unknown versions") for row in seen.values()})
    return " and ".join(versions)


def on_older() -> Iterator[list[str]]:
    """What is declared to be otherwise on older versions, pools with the same change together."""
    found: dict[tuple[str, ...], list[str]] = {}
    for (name, pool), older in OLDER.items():
        until = "before " + ".".join(map(str, older.before))
        for acks, before, now in _changes(name, pool):
            change = (ENDINGS[name].title, acks, until, before, now, older.reason)
            found.setdefault(change, []).append(pool)
    yield ["ending", "pool", "ack", "Celery", "then", "now", "because"]
    for told, pools in found.items():
        yield [told[0], ", ".join(pools), *told[1:]]


def _changes(name: str, pool: str) -> Iterator[tuple[str, str, str]]:
    """Ack modes, what they were on the oldest, what they are on the newest."""
    found: dict[tuple[str, str], list[str]] = {}
    for variant in VARIANTS:
        words = [_word(expected(pool, name, variant, version=v)) for v in (OLDEST, NEWEST)]
        found.setdefault((words[0], words[1]), []).append(variant)
    for (before, now), variants in found.items():
        if before != now:
            shown = [
                v
                for v in variants
                if v == (plain := v.removesuffix("_lost")) or plain not in variants
            ]
            yield "; ".join(HEADINGS[v] for v in shown), before, now


def _word(entry: Entry) -> str:
    if isinstance(entry, Absent):
        return "–"
    return f"{entry.starts}/{entry.ends} {entry.state}{' ↻' if entry.again else ''}"


def page(seen: Rows) -> str:
    """The whole page."""
    parts = [INTRODUCTION.format(versions=played_on(seen))]
    for pool in POOLS:
        parts.append(f"## {pool}\n")
        parts.append(table_of(lines(pool, seen)))
        if why := list(reasons(pool)):
            parts.append("Not in this table:\n")
            parts.append("\n".join(why) + "\n")
    parts.append(f"## On older versions\n\n{ON_OLDER}")
    parts.append(table_of(on_older()))
    return "\n".join([*parts, CLOSING])


def table_of(rows: Iterable[list[str]]) -> str:
    """The same as the docs show it."""
    head, *others = rows
    table = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"


def columns(rows: Iterable[list[str]]) -> Iterator[str]:
    """The same as a terminal shows it."""
    table = list(rows)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def printed(seen: Rows) -> Iterator[str]:
    """The same for a terminal."""
    yield f"played on {played_on(seen)}"
    for pool in POOLS:
        yield f"\n{pool}"
        yield from columns(lines(pool, seen))
        yield from (f"  {reason}" for reason in reasons(pool))
    yield "\non older versions"
    yield from columns(on_older())


def main(path: Path) -> None:
    """Print, and write the page, which is about the newest Celery."""
    seen = seen_cells(path)
    sys.stdout.write("\n".join(printed(seen)) + "\n")
    if CELERY >= NEWEST:
        PAGE.write_text(page(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
