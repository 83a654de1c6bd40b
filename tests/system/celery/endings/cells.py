"""The table: for every pool, ack mode and ending, what must be seen, or why there is no such cell.

It says what Celery's documentation says, and for the slot what fairqueue promises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import celery

from tests.system.celery.endings.bench import Seen
from tests.system.celery.endings.endings import ENDINGS

CELERY = tuple(map(int, celery.__version__.split(".")[:2]))
POOLS = ("prefork", "threads", "solo", "gevent", "eventlet")
GREEN = ("gevent", "eventlet")
OTHERS = POOLS[1:]
VARIANTS = ("early", "late", "early_lost", "late_lost")
"""Acked early or late, without and with ``task_reject_on_worker_lost``."""

SEEN_SECONDS = 1.0
"""A slot is free by then after an ending that anyone can see."""
UNSEEN_SECONDS = 5.0
"""The same after the lease, where no one can."""


@dataclass(frozen=True)
class Cell:
    """What must be seen: how often the body starts and comes to an end, and what is stored."""

    starts: int
    ends: int
    state: str
    again: bool = False
    """It is delivered once more, and told so."""
    visible: bool = True
    """Somebody sees the ending; else the lease has to run out."""
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
# Celery 5.7 stores FAILURE for a Reject without requeue, older versions nothing.
REJECTED = Cell(1, 1, "FAILURE" if CELERY >= (5, 7) else "PENDING")

# Before Celery 5.7 SystemExit is an error like others of which no state is stored, also on stock
# redis://; since then it is a lost child.
EXITED = FAILED if CELERY >= (5, 7) else replace(FAILED, state="PENDING")

CUT_OFF = Cell(1, 1, "RETRY")
# Whether Celery can store RETRY there depends on a connection that is open at that moment.
CUT_OFF_OR_NOT_TOLD = Cell(1, 1, "RETRY or PENDING")

NO_CHILD = Absent("there is no child process: to kill the task is to kill the worker")
NO_LIMIT = Absent("Celery enforces this time limit in other pools only")
NO_PROCESS_LIMIT = Absent("the setting replaces child processes, and there is none")
NO_LOSS = Absent("the setting is about lost child processes, and there is none")
FIXED = Absent("the pool's size is fixed")
NO_RESTART = Absent("the pool cannot be restarted; Celery ignores the command")
TOO_OLD = Absent("soft shutdown came with Celery 5.5")

Row = tuple[Entry, Entry, Entry, Entry]


def row(early: Entry, late: Entry | None = None, *, late_lost: Entry | None = None) -> Row:
    """One ending's entries, in the order of VARIANTS; the setting does nothing by default."""
    late = early if late is None else late
    return early, late, early, late if late_lost is None else late_lost


TABLE: dict[tuple[str, str], Row] = {}


def declare(ending: str, pools: Iterable[str], entries: Row) -> None:
    """For these pools."""
    for pool in pools:
        early, late, *_ = entries
        has_children = pool == "prefork" or isinstance(early, Absent)
        TABLE[ending, pool] = entries if has_children else (early, late, NO_LOSS, NO_LOSS)


declare("success", POOLS, row(RAN))
declare("error", POOLS, row(FAILED))
declare("retry", POOLS, row(RETRIED))
declare("reject", POOLS, row(REJECTED, Cell(1, 1, REJECTED.state, dead=1)))
declare("reject_requeue", POOLS, row(Cell(1, 1, "PENDING"), AGAIN))
declare("ignore", POOLS, row(Cell(1, 1, "PENDING")))
declare("system_exit", ("prefork",), row(EXITED, late_lost=AGAIN if CELERY >= (5, 7) else EXITED))
declare("system_exit", OTHERS, row(Cell(1, 1, "PENDING"), AGAIN))
declare("child_killed", ("prefork",), row(KILLED, late_lost=KILLED_AGAIN))
declare("child_killed", OTHERS, row(NO_CHILD))
declare("out_of_memory", POOLS, row(FAILED, AGAIN))
declare("soft_limit", ("prefork",), row(FAILED))
declare("soft_limit", OTHERS, row(NO_LIMIT))
declare("hard_limit", ("prefork", "gevent"), row(FAILED))
declare("hard_limit", ("threads", "solo", "eventlet"), row(NO_LIMIT))
declare("revoke", POOLS, row(RAN))
declare("terminate", ("prefork", *GREEN), row(Cell(1, 1, "REVOKED")))
declare("terminate", ("threads", "solo"), row(RAN))  # unsupported: it runs to its end
declare("revoked_before_eta", POOLS, row(DROPPED))
declare("expired", POOLS, row(DROPPED))
# Given back until its turn, and so delivered again, though its body starts once.
declare("rate_limited", POOLS, row(Cell(1, 1, "SUCCESS", again=True)))
declare("warm", POOLS, row(RAN))
declare("soft", ("threads", *GREEN), row(RAN if CELERY >= (5, 5) else TOO_OLD))
# Celery's main process sleeps through the whole time-out, and hears of no child's end meanwhile.
declare("soft", ("prefork",), row(replace(RAN, asleep=4.0) if CELERY >= (5, 5) else TOO_OLD))
declare("soft", ("solo",), row(FAILED if CELERY >= (5, 5) else TOO_OLD))
declare("cold", ("prefork",), row(CUT_OFF, AGAIN))
declare("cold", ("threads",), row(RAN))  # nothing can cut them off
declare("cold", ("solo",), row(FAILED))
declare("cold", GREEN, row(CUT_OFF_OR_NOT_TOLD, AGAIN))
declare("worker_killed", POOLS, row(
    Cell(1, 0, "PENDING", visible=False, lost=1),
    Cell(2, 1, "SUCCESS", again=True, visible=False),
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


def expected(pool: str, ending: str, variant: str) -> Entry:
    """One entry of the table."""
    return TABLE[ending, pool][VARIANTS.index(variant)]


def variants(pool: str, ending: str) -> tuple[str, ...]:
    """The cells of a row that exist."""
    return tuple(v for v in VARIANTS if isinstance(expected(pool, ending, v), Cell))


def problems(seen: Seen) -> Iterator[str]:
    """In what a cell differs from its entry."""
    cell = expected(seen.pool, seen.ending, seen.variant)
    assert isinstance(cell, Cell)
    if seen.state not in cell.state.split(" or "):
        yield f"state {seen.state}, not {cell.state}"
    for name in ("starts", "ends", "lost", "dead"):
        if getattr(seen, name) != getattr(cell, name):
            yield f"{name} {getattr(seen, name)}, not {getattr(cell, name)}"
    if bool(seen.redelivered) != cell.again:
        yield f"delivered again: {bool(seen.redelivered)}"
    longest = _longest(seen.ending, cell)
    if seen.following is None or (seen.recovery or 0) > longest:
        yield f"its slot was free after {seen.recovery} s, not {longest} s"
    if seen.most_slots > 1:
        yield f"{seen.most_slots} slots of a workspace that has one"


def _longest(ending: str, cell: Cell) -> float:
    if cell.visible:
        return SEEN_SECONDS + cell.asleep
    return ENDINGS[ending].lease_seconds + UNSEEN_SECONDS
