"""Print the page with the whole table, and write it into the docs.

python -m tests.system.celery.endings.report FILE     FILE holds the results of the tests
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

This page shows how a task ends in every pool of Celery, with early acks (Celery's default) and late acks (`acks_late`), with and without `task_reject_on_worker_lost`.
It covers every way in which a task, its process or its worker can end.
Real workers ran each case, and the tasks recorded their starts and ends in a file outside the broker.
`make endings` runs all cases again, prints the tables and writes this page.
These results were measured on {versions}.

Each cell shows the **starts / ends** of the task's body, the state in the result backend, and the seconds from the task's last sign of life until the workspace's slot was free.
An end is counted if the body returns or raises; a killed process counts no end.
↻ means that the task was redelivered, with `redelivered` set.
"lost" means that it was counted as lost, and "dead" that it became a dead letter.
"""  # noqa: E501 - one sentence per line

ON_OLDER = """\
On older versions of Celery, the tests expect these results instead.
They are the behaviour of that version, also on `redis://`, except for the cold shutdown: on `redis://`, prefork loses a late-acked task, and gevent and eventlet run an early-acked task twice.
`make matrix TOX_ARGS="-e py310-celery53 -- -m 'long or not long' tests/system/celery/endings"` runs them on the oldest version.
"""  # noqa: E501 - one sentence per line

CLOSING = """\
## What to know

- If the worker sees the task end, the slot is free within a second. If it cannot (its main process was killed or stopped), the slot is free within the lease plus five seconds. The lease was 3 s here; the default is 30 s.
- If a child process dies, Celery with `acks_late` alone marks its task as failed. With `task_reject_on_worker_lost` the task runs again, at most `max_deliveries` times.
- An early-acked task does not run again, whatever happens. Redis has its ack before it starts; on `redis://` some milliseconds later. If the whole worker dies between the ack and the start, the task is lost.
- No task starts on a lease that has ended, unless Redis has its early ack: if a worker was stopped before the start, or its link to Redis was slow, it gives the job back instead.
- A worker looks for expired tasks every second or two, and stores their result.
- A part of a chord is over only once the result backend has counted it, because the chord's body follows from that. If the backend is away when a part ends, its process waits, and tells so every 10 s; on `redis://`, Celery gives up (after 20 tries by default), and the body never comes. A worker that is told to stop meanwhile gives a late-acked part back (since Celery 5.6, and not in prefork, whose processes do not hear of a stop); an early-acked part is lost then, and its chord with it. What only Celery could close: a backend that fails in the milliseconds between counting the last part and publishing the body may fail the chord.
- A worker that was stopped for longer than its lease has lost its late-acked tasks to another worker. It stops its own runs if the pool can do so (prefork, eventlet, and gevent since Celery 5.5). In other pools `fairqueue.current().lost` is true, and whatever such a run publishes is rejected. Its write to the result backend is not prevented.
- A task above its `rate_limit` goes back to the queue until it may start, so it holds no slot meanwhile. It then counts as redelivered, although its body starts once.
- Celery's prefork and solo workers shut down when they are out of memory. During a soft shutdown, the main process of a prefork worker sleeps, and sees that its children have ended only after the time-out.
- On `redis://`, prefork stores the same states, except for a late-acked task that is out of memory: there the first run's FAILURE stays. A late-acked task whose worker was killed, or that raised `SystemExit` in threads or gevent, did not run again there during the test: it waits for the visibility timeout, an hour by default. A late-acked task that was cut off by a cold shutdown under gevent did not run again there either.
"""  # noqa: E501 - one sentence per line


Rows = dict[tuple[str, str, str], dict[str, Any]]


def seen_cells(path: Path) -> Rows:
    """What was noted, the newest of each cell."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["pool"], row["ending"], row["variant"]): row for row in rows}


def text(row: dict[str, Any] | None) -> str:
    """One cell."""
    if row is None:
        return "not run"
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
    yield ["ending", "pool", "ack", "Celery", "result there", "result now", "reason"]
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
            parts.append("Cases that this pool does not have:\n")
            parts.append("\n".join(why) + "\n")
    parts.append(f"## Older versions of Celery\n\n{ON_OLDER}")
    parts.append(table_of(on_older()))
    return "\n".join([*parts, CLOSING])


def table_of(rows: Iterable[list[str]]) -> str:
    """A table as the docs show it."""
    head, *others = rows
    table = [head, ["---"] * len(head), *others]
    return "\n".join(f"| {' | '.join(row)} |" for row in table) + "\n"


def main(path: Path) -> None:
    """Print, and write the page, which is about the newest Celery."""
    seen = seen_cells(path)
    sys.stdout.write(page(seen))
    if CELERY >= NEWEST:
        PAGE.write_text(page(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
