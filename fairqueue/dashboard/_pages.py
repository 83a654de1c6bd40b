"""What each page shows: reads it from the queue, and says which template lays it out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

from fairqueue._reports import Delivery
from fairqueue._settings import LIMITS
from fairqueue._types import JobState, Scope
from fairqueue._validation import checked_scope
from fairqueue.audit import can_be_mended
from fairqueue.dashboard import _pictures
from fairqueue.dashboard._view import CHOICES, MOST_COUNTED, Context, View
from fairqueue.errors import ConfigurationError
from fairqueue.explained import (
    OPTIONS,
    Blocker,
    QueuePosition,
    Why,
    explain_blocker,
    explain_position,
    explain_start,
    explain_state,
    explain_steps,
    explain_workers,
    outcome_of,
)
from fairqueue.messages import last_line, masked, shown
from fairqueue.operate.jobs import locate
from fairqueue.operate.unseen_names import hint_of_unseen, is_used
from fairqueue.plain import seconds_in, tick_in
from fairqueue.rows import DeadFilter, DeadPage
from fairqueue.shares import ORDERS, shares_of, state_of
from fairqueue.tables import (
    ACTS,
    HISTORY,
    PAUSES,
    SCHEDULES,
    TASKS,
    WORKERS,
    Column,
    of_queues,
    state_of_worker,
)

PAGE = 50
MOST_SCHEDULES = 1000
MOST_HISTORY = 1000
MOST_OF_SCOPE = 20
CURES = {
    "pause": ("/pauses", "Resume"),
    "concurrency": ("/limits", "Limits"),
    "rate": ("/limits", "Limits"),
    "worker": ("/workers", "Workers"),
}
"""Where each kind of blocker is ended."""
NOT_FOUND = "no job or task has it, and no error of the first 3,000 dead letters."
Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its template, its title, and what it reads."""

    template: str
    title: str
    read: Callable[[View, Query], Context]
    key: str = ""
    """Opens it from the keyboard; empty: it has no entry in the navigation."""
    inside: str = ""
    """The page whose entry is shown as the current one; empty: its own."""


def _overview(view: View, _: Query) -> Context:
    overview = view.overview()
    waits = [row.oldest_wait_seconds or 0.0 for row in overview.workspaces]
    return {
        "status": view.remembered.get("status", view.queue.doctor.status, times=10),
        "overview": overview,
        "shares": shares_of(overview.workspaces),
        "rows": overview.workspaces[:12],
        "oldest": max(waits, default=0.0) or None,
        "dead": sum(row.dead for row in overview.workspaces),
        "share_picture": _pictures.shares(view.last_hour()),
        **view.pictures(),
    }


def scope_of(given: Query) -> Scope:
    """Return the scope that a form or an address names; what uses it checks it."""
    scope = Scope(given.get("scope", "workspace"), given.get("name", ""))
    return scope if scope.is_named else Scope(scope.kind)


def edited(scope: Scope) -> tuple[str, ...]:
    """The limits that may be set there."""
    return tuple(LIMITS[checked_scope(scope)[0]])


def given(query: Query, field: str, what: str) -> str:
    """Return what an address or a form must name."""
    if not query.get(field):
        raise ConfigurationError(f"{field} is missing: {what}")
    return query[field]


def _paged(rows: Sequence[Any], query: Query) -> Context:
    """Return the rows of one page, and which these are."""
    text = query.get("start", "0")
    if not text.isdecimal() or len(text) > 9:  # noqa: PLR2004 - far more than there ever are
        raise ConfigurationError(f"start must be a number from 0, not {text!r}")
    start = int(text)
    return {"rows": rows[start : start + PAGE], "found": len(rows), "start": start, "page": PAGE}


def _workspaces(view: View, query: Query) -> Context:
    overview = view.overview()
    order = query.get("by", "waiting")
    if order not in ORDERS:
        raise ConfigurationError(f"by must be one of {', '.join(ORDERS)}, not {order!r}")
    text = query.get("filter", "")
    rows = [row for row in overview.workspaces if text.lower() in row.workspace.lower()]
    rows.sort(key=ORDERS[order])
    return {
        "overview": overview,
        "shares": shares_of(overview.workspaces),
        "order": order,
        "orders": tuple(ORDERS),
        "filter": text,
    } | _paged(rows, query)


def _workspace(view: View, query: Query) -> Context:
    name, views = query.get("name", ""), view.queue.views
    scope, found = Scope.workspace(name), views.why(workspace=name)
    (row,) = views.overview(workspaces=[name]).workspaces
    return {
        "name": name,
        "row": row,
        "state": state_of(row),
        **_explained(found),
        "limits": view.queue.limits.get(scope),
        "edited": edited(scope),
        "running": views.running(workspace=name, n=20, arguments=True),
        "waiting": views.waiting(workspace=name, n=10),
        "hint": view.hint(scope) if found.state is JobState.IDLE else None,
        **view.pictures(scope),
    }


def _scope(kind: Literal["queue", "task"], view: View, query: Query) -> Context:
    """Show a queue or a task: its last hour, its limits, and the workspaces that used it."""
    name = query.get("name", "")
    scope = Scope(kind, name)
    rows = view.queue.activity.table(of=[scope], read=view.last_hour())
    pauses = view.remembered.get("pauses", view.queue.pauses.list)
    listed = view.remembered.get(f"{kind}s", getattr(view.queue.views, f"{kind}s"))
    return {
        "kind": kind,
        "name": name,
        "now": next((row for row in listed if getattr(row, kind) == name), None),
        "paused": any((row.scope, row.name) == (kind, name) for row in pauses),
        "starts": sum(row.starts for row in rows),
        "failures": sum(row.failures for row in rows),
        "rejections": sum(row.rejections for row in rows),
        "limits": view.queue.limits.get(scope),
        "edited": edited(scope),
        "hint": None if rows else view.hint(scope),
        "rows": rows[:MOST_OF_SCOPE],
        **view.pictures(scope),
    }


def _explained(found: Why) -> Context:
    return {
        "why": found,
        "blockers": [_blocker(blocker, found.now) for blocker in found.blockers],
        "positions": [_position(position, found) for position in found.positions],
    }


def _blocker(blocker: Blocker, now: float) -> Context:
    """Return its sentence, and the page on which an operator ends it."""
    href, text = CURES.get(blocker.kind, ("", ""))
    if href == "/limits":
        scope = OPTIONS.get(blocker.scope, blocker.scope)
        href += f"?{urlencode({'scope': scope, 'name': blocker.name})}"
    return {"sentence": explain_blocker(blocker, now), "href": href, "text": text}


def _position(position: QueuePosition, found: Why) -> Context:
    return {
        "head": explain_position(position, found),
        "blockers": [_blocker(blocker, found.now) for blocker in position.blockers],
        "would_block": [explain_blocker(blocker, found.now) for blocker in position.would_block],
        "workers": explain_workers(position),
        "start": explain_start(position),
    }


def _list(
    columns: Sequence[Column], rows: Sequence[Any], query: Query, empty: str, **more: Any
) -> Context:
    """Return a page of a list; ``pauses`` says what its rows are, where these may be paused."""
    told = {"columns": columns, "empty": empty, "pauses": "", "order": "", "where": {}}
    return told | {"fields": ()} | _paged(rows, query) | more


def _queues(view: View, query: Query) -> Context:
    rows = view.remembered.get("queues", view.queue.views.queues)
    demand = view.remembered.get("demand", partial(view.queue.views.demand, rows), times=10)
    return _list(of_queues(demand), rows, query, "There are no queues.", pauses="queue")


def _tasks(view: View, query: Query) -> Context:
    rows = view.remembered.get("tasks", view.queue.views.tasks)
    rows = sorted(rows, key=lambda row: (-row.running, row.task))
    order = ": those that run most, then by name"
    return _list(TASKS, rows, query, "There are no tasks.", pauses="task", order=order)


def _workers(view: View, query: Query) -> Context:
    """Show those of a day: the silent ones first, those that have stopped last."""
    rows = view.remembered.get("every worker", partial(view.queue.views.workers, gone=True))
    rows = sorted(rows, key=lambda row: ("silent", "alive", "stopped").index(state_of_worker(row)))
    order = ": silent ones first, stopped ones last"
    return _list(WORKERS, rows, query, "No worker was seen within a day.", order=order)


def _pauses(view: View, query: Query) -> Context:
    rows = view.remembered.get("pauses", view.queue.pauses.list)
    return _list(PAUSES, rows, query, "Nothing is paused or draining.")


def _acts(view: View, query: Query) -> Context:
    rows = view.remembered.get("acts", view.queue.acts.list)
    return _list(ACTS, rows, query, "No operator has done anything.")


def _history(view: View, query: Query) -> Context:
    where = {kind: query[kind] for kind in HISTORY_FIELDS if query.get(kind)}
    read = partial(view.queue.history.list, most=MOST_HISTORY, **where)
    rows = view.remembered.get(f"finished {sorted(where.items())}", read)
    empty = "No such run is kept: workers with the setting history=N keep the last that ended."
    return _list(HISTORY, rows, query, empty, where=where, fields=HISTORY_FIELDS)


def _schedules(view: View, query: Query) -> Context:
    rows = view.remembered.get("schedules", partial(view.queue.schedules.list, most=MOST_SCHEDULES))
    within = sum(not row.paused and (row.next or 0) < time.time() + 3600 for row in rows)
    return _list(SCHEDULES, rows, query, "There is no schedule.", within=within)


def _limits(view: View, query: Query) -> Context:
    """Show the limits of one scope, to edit, or all that are stored."""
    if "scope" not in query:
        rows = view.remembered.get("limits", view.queue.limits.list)
        return {"scope": None, "unnamed": (Scope.default(), Scope.total())} | _paged(rows, query)
    scope = scope_of(query)
    limits = view.queue.limits.get(scope)
    return {"scope": scope, "limits": limits, "edited": edited(scope), "hint": view.hint(scope)}


SECTIONS = {JobState.RUNNING: "/running", JobState.DEAD: "/dead", JobState.UNKNOWN: "/history"}
HISTORY_FIELDS = ("workspace", "task", "outcome")
DEAD_FIELDS = ("reason", "error", "since", "until")


def _choice(query: Query, *more: str) -> dict[str, str]:
    return {kind: query[kind] for kind in (*CHOICES, *more) if query.get(kind)}


def _running(view: View, query: Query) -> Context:
    where = _choice(query, "worker", "stuck")
    asked: dict[str, Any] = {**where, "n": 100, "arguments": True}
    if "stuck" in where:
        asked["stuck"] = seconds_in(where["stuck"])
        if asked["stuck"] is None:
            raise ConfigurationError(f"stuck must be a time such as 10m, not {where['stuck']!r}")
    found = view.queue.views.running(**asked)
    return {"found": found, "where": where, "may_cancel": partial(view.cancellable, where)}


def _waiting(view: View, query: Query) -> Context:
    where, cursor = _choice(query), query.get("cursor", "")
    page = view.queue.views.waiting(**where, cursor=cursor, n=PAGE)  # type: ignore[arg-type]
    return {"page": page, "where": where, "may_cancel": partial(view.cancellable, where)}


def _dead(view: View, query: Query) -> Context:
    where, cursor = _choice(query, *DEAD_FIELDS), query.get("cursor", "")
    overview = view.overview()
    page = view.dead(where, cursor, PAGE, payloads=True)

    def counted() -> DeadPage:
        if cursor or page.cursor:
            return view.dead(where, "", MOST_COUNTED, payloads=False)
        return page

    return {
        "where": where,
        "fields": (*CHOICES, *DEAD_FIELDS),
        "counted": counted,
        "page": page,
        "overview": overview,
        "rows": sorted((row for row in overview.workspaces if row.dead), key=ORDERS["dead"])[:12],
    }


def _job(view: View, query: Query) -> Context:
    job, name = given(query, "id", "the id of a job"), query.get("workspace") or None
    found = view.queue.views.why(job, workspace=name, queue=query.get("queue") or None)
    status, letter, payload = found.job, None, None
    if status is not None and found.state is JobState.DEAD:
        letter = view.queue.dead.get(status.workspace, status.job_id)
    if status is not None and status.queue:
        where = {"workspace": status.workspace, "queue": status.queue}
        payload = view.queue.jobs.payload(status.job_id, **where)
    return {
        "job": job,
        "section": SECTIONS.get(found.state, "/waiting"),
        "of_job": {"id": found.job_id, "workspace": found.workspace or ""},
        "of_letter": {"job_id": found.job_id, "workspace": found.workspace or ""},
        "letter": letter,
        "reason": masked(letter.reason) if letter else "",
        "error": last_line(letter.details) if letter else "",
        "details": masked(letter.details) if letter else "",
        "tick": tick_in(job),
        "node": found.nodes.get(found.detail or "", ""),
        "attempts": _attempts(found),
        "runs": view.queue.history.list(workspace=name or found.workspace, job_id=job, most=PAGE),
        "called": shown(payload or b""),
        "bytes": None if payload is None else len(payload),
        **_explained(found),
        "sentence": masked(explain_state(found)),
        "steps": [*explain_steps(found.job, found.nodes)],
        "may_cancel": found.state in {JobState.WAITING, JobState.SCHEDULED, JobState.RUNNING},
    }


def _attempts(found: Why) -> list[Context]:
    """Return each start, the one that goes on too, and its part of the time since the publish."""
    job = found.job
    if job is None or job.published is None:
        return []
    starts = list(job.starts)
    if job.started is not None:
        now = Delivery(0, found.detail or "", job.started, found.now, 0.0, "running")
        starts.append(now)
    whole = max(found.now - job.published, 1e-3)
    return [
        {
            "claimed": start.claimed,
            "held": start.ended - start.claimed,
            "begin": max(0.0, (start.claimed - job.published) / whole),
            "end": min(1.0, (start.ended - job.published) / whole),
            "worker": found.nodes.get(start.owner, start.owner),
            "outcome": outcome_of(start, found.detail),
        }
        for start in starts
    ]


def _doctor(view: View, _: Query) -> Context:
    found = view.checkup.found
    mendable = sum(can_be_mended(finding) for finding in found.findings) if found else 0
    set_aside = view.overview().set_aside
    return {"checked": view.checkup, "found": found, "set_aside": set_aside, "mendable": mendable}


PAGES: dict[str, Page] = {
    "/": Page("overview.html", "Overview", _overview, "o"),
    "/workspaces": Page("workspaces.html", "Workspaces", _workspaces, "w"),
    "/workspace": Page("workspace.html", "Workspace", _workspace, inside="/workspaces"),
    "/queues": Page("list.html", "Queues", _queues, "q"),
    "/queue": Page("scope.html", "Queue", partial(_scope, "queue"), inside="/queues"),
    "/tasks": Page("list.html", "Tasks", _tasks, "t"),
    "/task": Page("scope.html", "Task", partial(_scope, "task"), inside="/tasks"),
    "/running": Page("running.html", "Running", _running, "r"),
    "/waiting": Page("waiting.html", "Waiting", _waiting, "j"),
    "/job": Page("job.html", "Job", _job, inside="/waiting"),
    "/dead": Page("dead.html", "Dead letters", _dead, "d"),
    "/pauses": Page("pauses.html", "Pauses", _pauses, "p"),
    "/schedules": Page("schedules.html", "Schedules", _schedules, "s"),
    "/limits": Page("limits.html", "Limits", _limits, "l"),
    "/history": Page("list.html", "History", _history, "h"),
    "/acts": Page("list.html", "Acts", _acts, "a"),
    "/workers": Page("list.html", "Workers", _workers, "k"),
    "/doctor": Page("doctor.html", "Doctor", _doctor, "x"),
}
"""In the order of the navigation."""


def find(view: View, text: str) -> str:
    """Return the page of what has this name, id or error; 404: nothing has."""
    queue, named = view.queue, urlencode({"name": text})
    if is_used(queue.store, Scope.workspace(text)):
        return f"/workspace?{named}"
    job = locate(queue.store, text, workspace=None, queue=None)
    if job or queue.history.list(job_id=text, most=1):
        where = {"workspace": job.workspace} if job else {}
        return f"/job?{urlencode({'id': text, **where})}"
    for kind in ("task", "queue"):
        if is_used(queue.store, Scope(kind, text)):
            return f"/{kind}?{named}"
    if queue.dead.look(DeadFilter(error=text), n=1).letters:
        return f"/dead?{urlencode({'error': text})}"
    hint = hint_of_unseen(queue.store, "workspace", text)
    if hint is None:
        return f"/workspace?{named}"
    raise HTTPException(404, f"Nothing has this name: {hint}; {NOT_FOUND}")
