"""Print the page with the whole table, and write it into the docs.

python -m tests.system.celery.endings.report FILE     FILE holds the results of the tests
"""

from __future__ import annotations

import json
import re
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
    """The whole page: its prose stays, its tables are new."""
    text = re.sub(r"(?<=measured on ).*(?=\.\n)", played_on(seen), PAGE.read_text(), count=1)
    for pool in POOLS:
        parts = [f"## {pool}\n", table_of(lines(pool, seen))]
        if why := list(reasons(pool)):
            parts += ["Cases that this pool does not have:\n", "\n".join(why) + "\n"]
        text = _section(text, pool, "\n".join(parts))
    older = text.partition("## Older versions of Celery\n")[2].partition("\n| ")[0]
    return _section(
        text,
        "Older versions of Celery",
        f"## Older versions of Celery\n{older}\n{table_of(on_older())}",
    )


def _section(text: str, name: str, content: str) -> str:
    """Replace a section of the page."""
    before, _, rest = text.partition(f"## {name}\n")
    _, heading, after = rest.partition("\n## ")
    return before + content + heading + after


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
