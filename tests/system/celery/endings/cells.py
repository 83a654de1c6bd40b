"""The table: for every pool, ack mode and ending the expected outcome, or why there is no cell.

It says what Celery's documentation says, and for the slot what fairqueue promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import celery

from tests.system.celery.endings.bench import Seen
from tests.system.celery.endings.endings import ENDINGS

CELERY = tuple(map(int, celery.__version__.split(".")[:2]))
NEWEST, OLDEST = (5, 7), (5, 3)
POOLS = ("prefork", "threads", "solo", "gevent", "eventlet")
GREEN = ("gevent", "eventlet")
OTHERS = POOLS[1:]
VARIANTS = ("early", "late", "early_lost", "late_lost")
"""Acked early or late, without and with ``task_reject_on_worker_lost``."""

SEEN_SECONDS = 1.0
"""A slot is free by then after an ending that the worker or its parent can see."""
BESIDE_OTHERS_SECONDS = 4.0
"""The same on a loaded machine: long before a lease would have ended."""
UNSEEN_SECONDS = 5.0
"""The same after the lease, if nothing can see the ending."""


@dataclass(frozen=True)
class Cell:
    """The expected outcome: how often the body starts and ends, and what is stored."""

    starts: int
    ends: int
    state: str
    again: bool = False
    """It is delivered again, marked as redelivered."""
    visible: bool = True
    """Something sees the ending; otherwise the lease has to expire."""
    lost: int = 0
    dead: int = 0
    asleep: float = 0.0
    """Seconds during which Celery cannot see it."""


@dataclass(frozen=True)
class Absent:
    """Why there is no such cell."""

    reason: str


Entry = Cell | Absent

RAN = Cell(1, 1, "SUCCESS")
FAILED = Cell(1, 1, "FAILURE")
KILLED = Cell(1, 0, "FAILURE")
AGAIN = Cell(2, 2, "SUCCESS", again=True)
KILLED_AGAIN = Cell(2, 1, "SUCCESS", again=True)
RETRIED = Cell(2, 2, "SUCCESS")
DROPPED = Cell(0, 0, "REVOKED")
NOT_STORED = Cell(1, 1, "PENDING")

ABORTED = Cell(1, 1, "RETRY")
# Whether Celery can store RETRY there depends on a connection that is open at that moment.
ABORTED_OR_NOT_STORED = Cell(1, 1, "RETRY or PENDING")

NO_CHILD = Absent("there is no child process: killing the task means killing the worker")
NO_LIMIT = Absent("Celery enforces this time limit in other pools only")
NO_PROCESS_LIMIT = Absent("the setting replaces child processes, and there are none")
NO_LOSS = Absent("the setting applies to lost child processes, and there are none")
FIXED = Absent("the pool's size is fixed")
NO_RESTART = Absent("the pool cannot be restarted; Celery ignores the command")
TOO_OLD = Absent("soft shutdown came with Celery 5.5")

Row = tuple[Entry, Entry, Entry, Entry]


@dataclass(frozen=True)
class Older:
    """What a row is before some version of Celery, for a reason that holds on redis:// too."""

    before: tuple[int, int]
    row: Row
    reason: str


def row(early: Entry, late: Entry | None = None, *, late_lost: Entry | None = None) -> Row:
    """One ending's entries, in the order of VARIANTS; the setting does nothing by default."""
    late = early if late is None else late
    return early, late, early, late if late_lost is None else late_lost


TABLE: dict[tuple[str, str], Row] = {}
OLDER: dict[tuple[str, str], Older] = {}


def declare(ending: str, pools: Iterable[str], entries: Row) -> None:
    """For these pools, with the newest Celery."""
    for pool in pools:
        TABLE[ending, pool] = _in(pool, entries)


def declare_older(
    ending: str, pools: Iterable[str], before: tuple[int, int], entries: Row, reason: str
) -> None:
    """What it was in these pools before a version of Celery."""
    for pool in pools:
        OLDER[ending, pool] = Older(before, _in(pool, entries), reason)


def _in(pool: str, entries: Row) -> Row:
    early, late, *_ = entries
    has_children = pool == "prefork" or isinstance(early, Absent)
    return entries if has_children else (early, late, NO_LOSS, NO_LOSS)


declare("success", POOLS, row(RAN))
declare("error", POOLS, row(FAILED))
declare("retry", POOLS, row(RETRIED))
declare("reject", POOLS, row(FAILED, replace(FAILED, dead=1)))
declare_older(
    "reject", POOLS, (5, 7), row(NOT_STORED, replace(NOT_STORED, dead=1)),
    "no state was stored for a `Reject`",
)  # fmt: skip
declare("reject_requeue", POOLS, row(NOT_STORED, AGAIN))
declare("ignore", POOLS, row(NOT_STORED))
declare("system_exit", ("prefork",), row(FAILED, late_lost=AGAIN))
declare_older(
    "system_exit", ("prefork",), (5, 7), row(NOT_STORED),
    "it was treated as an ordinary error without a stored state, and not as a lost child",
)  # fmt: skip
declare("system_exit", OTHERS, row(NOT_STORED, AGAIN))
declare("child_killed", ("prefork",), row(KILLED, late_lost=KILLED_AGAIN))
declare("child_killed", OTHERS, row(NO_CHILD))
declare("out_of_memory", POOLS, row(FAILED, AGAIN))
declare("soft_limit", ("prefork",), row(FAILED))
declare("soft_limit", OTHERS, row(NO_LIMIT))
declare("hard_limit", ("prefork", "gevent"), row(FAILED))
declare("hard_limit", ("threads", "solo", "eventlet"), row(NO_LIMIT))
declare("revoke", POOLS, row(RAN))
declare("terminate", ("prefork", *GREEN), row(Cell(1, 1, "REVOKED")))
declare_older("terminate", ("gevent",), (5, 5), row(RAN), "the gevent pool could not stop a task")
declare("terminate", ("threads", "solo"), row(RAN))  # unsupported: it runs to its end
declare("revoked_before_eta", POOLS, row(DROPPED))
declare("expired", POOLS, row(replace(DROPPED, dead=1)))  # kept, with its reason
# Given back until its turn, and so delivered again, though its body starts once.
declare("rate_limited", POOLS, row(Cell(1, 1, "SUCCESS", again=True)))
declare("warm", POOLS, row(RAN))
declare("soft", ("threads", *GREEN), row(RAN))
# Celery's main process sleeps through the whole time-out, and hears of no child's end meanwhile.
declare("soft", ("prefork",), row(replace(RAN, asleep=4.0)))
declare("soft", ("solo",), row(FAILED))
declare_older("soft", POOLS, (5, 5), row(TOO_OLD), "there was no soft shutdown")
declare("cold", ("prefork",), row(ABORTED, AGAIN))
declare_older(
    "cold",
    ("prefork",),
    (5, 5),
    row(FAILED, AGAIN),
    "the children were killed instead of cancelled",
)
declare("cold", ("threads",), row(RAN))  # nothing can cut them off
declare("cold", ("solo",), row(FAILED))
declare_older("cold", ("solo",), (5, 5), row(RAN), "the running task was not interrupted")
declare("cold", GREEN, row(ABORTED_OR_NOT_STORED, AGAIN))
declare_older(
    "cold", GREEN, (5, 5), row(Cell(1, 0, "PENDING"), KILLED_AGAIN),
    "greenlets were not cancelled but ended with their process",
)  # fmt: skip
declare("worker_killed", POOLS, row(
    Cell(1, 0, "PENDING", visible=False, lost=1),
    replace(KILLED_AGAIN, visible=False),
))  # fmt: skip
declare("frozen", POOLS, row(
    Cell(1, 1, "SUCCESS", visible=False, lost=1),
    Cell(2, 2, "SUCCESS", again=True, visible=False),
))  # fmt: skip
declare("autoscale", ("prefork", *GREEN), row(RAN))
declare("autoscale", ("threads", "solo"), row(FIXED))
declare("pool_restart", ("prefork",), row(RAN))
declare("pool_restart", OTHERS, row(NO_RESTART))
declare("max_tasks", ("prefork",), row(RAN))
declare("max_tasks", OTHERS, row(NO_PROCESS_LIMIT))
declare("max_memory", ("prefork",), row(RAN))
declare("max_memory", OTHERS, row(NO_PROCESS_LIMIT))


def expected(pool: str, ending: str, variant: str, *, version: tuple[int, ...] = CELERY) -> Entry:
    """One entry of the table, with a version of Celery."""
    older = OLDER.get((ending, pool))
    entries = older.row if older and version < older.before else TABLE[ending, pool]
    return entries[VARIANTS.index(variant)]


def variants(pool: str, ending: str) -> tuple[str, ...]:
    """The cells of a row that exist."""
    return tuple(v for v in VARIANTS if isinstance(expected(pool, ending, v), Cell))


def problems(seen: Seen, *, visible_seconds: float = SEEN_SECONDS) -> Iterator[str]:
    """How a cell differs from its entry."""
    cell = expected(seen.pool, seen.ending, seen.variant)
    assert isinstance(cell, Cell)
    if seen.state not in cell.state.split(" or "):
        yield f"state {seen.state}, not {cell.state}"
    for name in ("starts", "ends", "lost", "dead"):
        if getattr(seen, name) != getattr(cell, name):
            yield f"{name} {getattr(seen, name)}, not {getattr(cell, name)}"
    if bool(seen.redelivered) != cell.again:
        yield f"delivered again: {bool(seen.redelivered)}"
    longest = _longest(seen.ending, cell, visible_seconds)
    if seen.following is None or (seen.recovery or 0) > longest:
        yield f"its slot was free after {seen.recovery} s, not {longest} s"
    if seen.sizes and not 0 <= seen.sizes[-1] <= 1 < seen.sizes[0]:
        yield f"its pool had sizes {seen.sizes} at load and at rest"
    if seen.most_slots > 1:
        yield f"{seen.most_slots} slots of a workspace that has one"


def _longest(ending: str, cell: Cell, visible_seconds: float) -> float:
    if cell.visible:
        return visible_seconds + cell.asleep
    return ENDINGS[ending].lease_seconds + UNSEEN_SECONDS
