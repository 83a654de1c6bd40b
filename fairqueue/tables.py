"""The columns of each list, for the command line and the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from fairqueue._reports import Activity, DeadLetter
from fairqueue._types import Limit
from fairqueue.messages import in_a_list, last_line, masked
from fairqueue.plain import duration, moment, printable, rate
from fairqueue.rows import (
    Demand,
    PauseRow,
    QueueRow,
    RunningJob,
    ScheduleRow,
    TaskRow,
    WaitingJob,
    WorkerRow,
)

NOTHING = "–"
SHOWN_QUEUES = 5
LATE_SECONDS = 2.0


class Link(NamedTuple):
    """A page of the dashboard, with its query."""

    page: str
    query: Mapping[str, str]
    title: str = ""


class Column(NamedTuple):
    """One column of a list."""

    title: str
    text: Callable[[Any], str]
    """Returns the text of a row, safe to print."""
    link: Callable[[Any], Link] | None = None
    hover: Callable[[Any], float | None] | None = None
    """Returns the point in time to show on hover."""
    kind: str = "num"
    """``"num"``, ``"name"``, ``"state"``, ``"bar"`` (of a row with ``progress``), ``"reason"`` or
    ``"time"`` (wrapped), or ``""``; numbers are aligned to the right."""
    is_wide: bool = False
    """Whether to hide it on a narrow screen."""


def number(value: float | None) -> str:
    """A number, or a limit that may not be set."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,g}"


def limit_value(name: str, value: float | str | None) -> str:
    """The value of a limit of this name, safe to print."""
    if isinstance(value, str):
        return printable(value)
    return _starts(value) if name in {"rate", "workspace_rate"} else number(value)


def _stored(limit: Limit) -> str:
    by = printable(limit.stored_by or "")
    return NOTHING if limit.stored_at is None else f"{moment(limit.stored_at)} by {by}"


LIMITS = (
    Column("limit", lambda row: row[0], kind="name"),
    Column("value", lambda row: limit_value(row[0], row[1].value)),
    Column("source", lambda row: row[1].source.replace("_", " "), kind=""),
    Column("stored", lambda row: _stored(row[1]), kind="", is_wide=True),
)
"""Of rows with the name of a limit, and the limit."""


def _starts(per_second: float | None) -> str:
    return NOTHING if per_second is None else rate(per_second)


def _ago(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{duration(seconds)} ago"


def _state(row: QueueRow | TaskRow) -> str:
    runnable = isinstance(row, QueueRow) and row.runnable
    state = "running" if row.running else "waiting" if runnable else "idle"
    return row.pause.value if row.pause else state


def _lease_left(job: RunningJob) -> str:
    left = duration(job.lease_seconds_left) if job.lease_seconds_left >= 0 else "ended"
    return "cancelled, " * job.cancelled + "acked early, " * job.acked_early + left


def _state_of_waiting(job: WaitingJob) -> str:
    left = 0 if job.due is None else max(0.0, job.due - job.published - job.seconds)
    return "waiting" if job.due is None else f"due in {duration(left)}"


def state_of_worker(row: WorkerRow) -> str:
    """``alive``, ``stopped`` (it has said so), or ``silent``: killed, stuck or cut off."""
    return "alive" if row.is_alive else "silent" if row.lease_seconds else "stopped"


def _taken(row: WorkerRow) -> str:
    if row.queues is None:
        return NOTHING
    shown = [printable(queue) for queue in row.queues[:SHOWN_QUEUES]]
    more = len(row.queues) - len(shown) + row.more_queues
    return ", ".join(shown + [f"{more:,} more"] * (more > 0)) or "none"


def _known_by(row: TaskRow) -> str:
    wait = f", {row.unknown_jobs:,} waiting" if row.unknown_jobs else ""
    return NOTHING + wait if not row.workers else f"{row.workers:,} of {row.all_workers:,}{wait}"


def _name(
    title: str, field: str, *, empty: str = "(none)", kind: str = "name", **more: Any
) -> Column:
    read = attrgetter(field)
    return Column(title, lambda row: printable(read(row) or "") or empty, kind=kind, **more)


def _number(field: str, *, is_wide: bool) -> Column:
    read = attrgetter(field)
    return Column(field.replace("_", " "), lambda row: number(read(row)), is_wide=is_wide)


def _numbers(*fields: str, is_wide: bool = False) -> list[Column]:
    """Columns that are called as their fields."""
    return [_number(field, is_wide=is_wide) for field in fields]


WORKSPACE = _name(
    "workspace", "workspace", link=lambda row: Link("/workspace", {"name": row.workspace})
)
WORKSPACES = (
    WORKSPACE,
    *_numbers("waiting", "scheduled", "running", "limit"),
    Column("oldest wait", lambda row: duration(row.oldest_wait_seconds)),
    *_numbers("dead", "lost"),
)
OBSERVED = (*_numbers("would_block", "would_reject"),)
OF_JOB = (
    Column(
        "job",
        lambda row: printable(row.task_id or row.job_id),
        link=lambda row: Link(
            "/job", {"id": row.job_id, "workspace": row.workspace, "queue": row.queue}
        ),
        kind="name",
    ),
    _name("task", "task"),
    _name("arguments", "arguments", empty=NOTHING, is_wide=True),
    WORKSPACE,
    _name("queue", "queue", is_wide=True),
)
RUNNING = (
    *OF_JOB,
    _name("worker", "worker", is_wide=True),
    Column("runs for", lambda row: duration(row.seconds), hover=lambda row: row.since),
    Column("delivery", lambda row: str(row.deliveries), is_wide=True),
    Column("progress", lambda row: str(row.progress or NOTHING), kind="bar"),
    Column("lease left", _lease_left, is_wide=True),
)
WAITING = (
    *OF_JOB,
    Column("state", _state_of_waiting, hover=lambda row: row.due, kind="state"),
    Column("waited", lambda row: duration(row.seconds), hover=lambda row: row.published),
    Column("priority", lambda row: str(row.priority), is_wide=True),
    Column("deliveries", lambda row: str(row.deliveries), is_wide=True),
)
STATE = Column("state", _state, kind="state")


def of_queues(demand: Mapping[str, Demand]) -> Sequence[Column]:
    """The columns of queues, with the worker slots that they want and have."""
    return (
        _name("queue", "queue", link=lambda row: Link("/queue", {"name": row.queue})),
        *_numbers("waiting", "running"),
        Column("slots wanted", lambda row: _slots(demand.get(row.queue), "slots_wanted")),
        Column("worker slots", lambda row: _slots(demand.get(row.queue), "worker_slots")),
        Column(
            "limit",
            lambda row: number(row.concurrency),
            link=lambda row: Link(
                "/limits", {"scope": "queue", "name": row.queue}, "Limits of this queue"
            ),
            is_wide=True,
        ),
        *_numbers("capacity", is_wide=True),
        Column("in line", lambda row: number(row.runnable), is_wide=True),
        Column(
            "last start",
            lambda row: _ago(row.idle_seconds),
            hover=lambda row: row.last_start,
            is_wide=True,
        ),
        STATE,
    )


def _slots(demand: Demand | None, field: str) -> str:
    return NOTHING if demand is None else number(getattr(demand, field))


TASKS = (
    _name("task", "task", link=lambda row: Link("/task", {"name": row.task})),
    *_numbers("running"),
    Column("average", lambda row: duration(row.average_seconds), is_wide=True),
    Column("limit", lambda row: number(row.concurrency)),
    Column("per workspace", lambda row: number(row.workspace_concurrency), is_wide=True),
    Column("rate", lambda row: _starts(row.rate), is_wide=True),
    Column("rate per workspace", lambda row: _starts(row.workspace_rate), is_wide=True),
    Column("workers", _known_by),
    STATE,
)
WORKERS = (
    _name("worker", "worker", link=lambda row: Link("/running", {"worker": row.owner})),
    Column("state", state_of_worker, kind="state"),
    Column("takes", _taken, kind="name"),
    _name("software", "software", empty=NOTHING, is_wide=True),
    _name("owner", "owner", is_wide=True),
    _name("app", "app", empty=NOTHING, is_wide=True),
    *_numbers("running", "slots"),
    Column("last seen", lambda row: _ago(row.silent_seconds), hover=lambda row: row.last_seen),
)


def _page_of(row: PauseRow) -> Link:
    if row.scope == "workspace":
        return Link("/workspace", {"name": row.name})
    return Link("/limits", {"scope": row.scope, "name": row.name})


PAUSES = (
    Column("scope", lambda row: row.scope, kind=""),
    _name("name", "name", empty="", link=_page_of),
    Column("state", lambda row: row.state.value, kind="state"),
    _name("by", "stored_by", empty=NOTHING, is_wide=True),
    Column("for", lambda row: duration(row.seconds), hover=lambda row: row.since),
    *_numbers("waiting"),
)


def _next_tick(row: ScheduleRow) -> str:
    late = f", {duration(row.late_seconds)} late" * (row.late_seconds > LATE_SECONDS)
    return "paused" if row.paused else NOTHING if row.next is None else moment(row.next) + late


def _last_tick(row: ScheduleRow) -> str:
    return NOTHING if row.last is None else moment(row.last)


def _outcome(row: ScheduleRow) -> str:
    missed = f", {row.missed:,} missed" * (row.missed > 0)
    return ((row.outcome or NOTHING) + missed).removeprefix("missed, ")


SCHEDULES = (
    WORKSPACE,
    _name("schedule", "name"),
    _name("due", "schedule", empty=""),
    _name("zone", "tz", empty="", is_wide=True),
    _name("task", "task", empty=NOTHING, is_wide=True),
    Column("next", _next_tick, hover=lambda row: row.next, kind="time"),
    Column("last", _last_tick, kind="time", is_wide=True),
    Column("outcome", _outcome, kind="state"),
    _name("owner", "owner", empty=NOTHING, is_wide=True),
)
ACTS = (
    Column("time", lambda row: moment(row.time), kind="time"),
    _name("by", "by", empty=NOTHING, kind="reason"),
    _name("act", "act", empty=NOTHING),
    _name("of", "of", empty=NOTHING, kind="reason"),
    _name("before", "old", empty=NOTHING, is_wide=True),
    _name("result", "new", empty=NOTHING, kind="reason"),
)
HISTORY = (
    Column("ended", lambda row: moment(row.time), kind="time"),
    Column("outcome", lambda row: row.outcome, kind="state"),
    WORKSPACE._replace(is_wide=True),
    _name("queue", "queue", is_wide=True),
    _name("task", "task"),
    _name(
        "job",
        "task_id",
        link=lambda row: Link("/job", {"id": row.task_id, "workspace": row.workspace}),
    ),
    Column("error", lambda row: printable(row.error) or NOTHING, kind="reason"),
    Column("took", lambda row: duration(row.seconds), is_wide=True),
    _name("worker", "worker", empty="", is_wide=True),
)
HAPPENED = (
    Column("starts/min", lambda row: number(round(row.starts * 60 / row.seconds, 1))),
    *_numbers("ends", "failures"),
    *_numbers("dead", "expiries", is_wide=True),
    Column("rejected", lambda row: number(row.rejections)),
    Column("wait p50", lambda row: duration(row.wait(0.5)), is_wide=True),
    Column("wait p95", lambda row: duration(row.wait(0.95))),
    Column("worker time", lambda row: duration(row.worker_seconds)),
)
MINUTES = (Column("since", lambda row: moment(row.since), kind=""), *HAPPENED)


def of_activity(by: str) -> Sequence[Column]:
    """The columns of what happened to the jobs of each workspace, queue or task."""

    def name(row: Activity) -> str:
        return "(others)" if row.name is None else printable(row.name) or "(none)"

    def link(row: Activity) -> Link:
        return Link(f"/{by}s", {}) if row.name is None else Link(f"/{by}", {"name": row.name})

    return (Column(by, name, link, kind="name"), *HAPPENED)


def _called(row: DeadLetter) -> dict[str, str]:
    return in_a_list(row.job.payload)


def _reason(row: DeadLetter) -> str:
    return printable(": ".join(filter(None, (masked(row.reason), last_line(row.details)))))


DEAD_LETTERS = (
    Column(
        "job",
        lambda row: printable(_called(row)["task_id"] or row.job.id),
        link=lambda row: Link("/job", {"workspace": row.job.workspace, "id": row.job.id}),
        kind="name",
    ),
    _name(
        "workspace",
        "job.workspace",
        link=lambda row: Link("/workspace", {"name": row.job.workspace}),
    ),
    _name("queue", "job.queue", is_wide=True),
    _name("task", "job.task", empty="", is_wide=True),
    Column(
        "arguments",
        lambda row: printable(_called(row)["arguments"]) or NOTHING,
        kind="name",
        is_wide=True,
    ),
    Column("reason", _reason, kind="reason"),
    Column("died", lambda row: moment(row.died), kind="time", is_wide=True),
)
DEAD_COUNTS = (
    _name("reason", "reason"),
    _name("task", "task"),
    Column("dead", lambda row: number(row.count)),
    Column("oldest", lambda row: moment(row.oldest)),
    Column("newest", lambda row: moment(row.newest)),
    Column("last error", lambda row: printable(row.error), kind="reason"),
)
