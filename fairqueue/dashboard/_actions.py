"""Actions of an operator's forms. Each returns a sentence about what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairqueue.dashboard._pages import edited, given, scope_of
from fairqueue.dashboard._view import CHOICES, View
from fairqueue.errors import ConfigurationError
from fairqueue.operate.dead import EVERY, filter_of
from fairqueue.operate.jobs import WHAT_BECAME
from fairqueue.plain import count_jobs, counted, printable
from fairqueue.rows import DeadFilter

Form = Mapping[str, str]
BUSY = "Doctor is already running."


def _pause(view: View, form: Form) -> str:
    view.queue.pauses.pause(scope := scope_of(form))
    return f"Paused {scope}. Running jobs finish; new jobs are accepted."


def _drain(view: View, form: Form) -> str:
    view.queue.pauses.drain(scope := scope_of(form))
    return f"Draining {scope}. New jobs are rejected; waiting jobs run."


def _resume(view: View, form: Form) -> str:
    before = view.queue.pauses.resume(scope := scope_of(form))
    return f"Resumed {scope}." if before else f"Nothing was paused: {scope}."


def _set_limits(view: View, form: Form) -> str:
    scope = scope_of(form)
    entered = {limit: form.get(limit, "").strip() for limit in edited(scope)}
    wanted = {limit: value for limit, value in entered.items() if value}
    if not wanted:
        raise ConfigurationError("no limit was entered: fill in at least one field")
    view.queue.limits.set(scope, **wanted)
    words = ", ".join(f"{limit} {printable(value)}" for limit, value in wanted.items())
    return f"Live limits of {scope}: {words}."


def _unset_limits(view: View, form: Form) -> str:
    view.queue.limits.unset(scope := scope_of(form))
    return f"Removed the live limits of {scope}."


def _chosen_dead(form: Form) -> DeadFilter:
    """Return the filter of a form's dead letters; raise if it is empty."""
    chosen = filter_of(form)
    if chosen == EVERY:
        raise ConfigurationError("fill in at least one field to choose dead letters")
    return chosen


def _cancel(view: View, form: Form) -> str:
    job = given(form, "id", "the id of a job")
    where = {name: form.get(name) or None for name in ("workspace", "queue")}
    return f"Job {printable(job)} {WHAT_BECAME[view.queue.jobs.cancel(job, **where)]}."


def _cancel_matching(view: View, form: Form) -> str:
    names: dict[str, Any] = {kind: form[kind] for kind in CHOICES if form.get(kind)}
    done = view.queue.jobs.cancel_matching(**names)
    return f"{count_jobs(done.removed)} cancelled, and {count_jobs(done.signalled)} that run."


def _schedule(how: str, told: str) -> Callable[[View, Form], str]:
    def act(view: View, form: Form) -> str:
        name, workspace = given(form, "id", "the name of a schedule"), form.get("name", "")
        if getattr(view.queue.schedules, how)(name, workspace=workspace):
            return f"Schedule {printable(name)} {told}."
        raise ConfigurationError(f"there is no schedule {name!r} in workspace {workspace!r}")

    return act


def _checks(told: str, *, repair: bool) -> Callable[[View, Form], str]:
    return lambda view, _: told if view.checkup.begin(repair=repair) else BUSY


ACTIONS: dict[str, Callable[[View, Form], str]] = {
    "pause": _pause,
    "drain": _drain,
    "resume": _resume,
    "set-limits": _set_limits,
    "unset-limits": _unset_limits,
    "replay-dead": lambda view, form: (
        f"{count_jobs(view.queue.dead.replay_all(_chosen_dead(form)))} replayed."
    ),
    "delete-dead": lambda view, form: (
        f"{count_jobs(view.queue.dead.purge(_chosen_dead(form)))} deleted."
    ),
    "cancel": _cancel,
    "cancel-matching": _cancel_matching,
    "pause-schedule": _schedule("pause", "is paused"),
    "resume-schedule": _schedule("resume", "goes on from now"),
    "trigger-schedule": _schedule("trigger", "is published within a second"),
    "remove-schedule": _schedule("remove", "is removed"),
    "examine": _checks("Doctor has started.", repair=False),
    "repair": _checks("The repair has started.", repair=True),
    "forget-aside": lambda view, _: (
        f"Forgotten: {counted(view.queue.doctor.drop_set_aside(), 'record')}."
    ),
}
