"""What an operator's forms do. Each returns a sentence that says what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairqueue._types import Cancelled
from fairqueue.dashboard._dead import filter_of, where_of
from fairqueue.dashboard._limits import LimitScope
from fairqueue.dashboard._pages import View, given
from fairqueue.errors import ConfigurationError
from fairqueue.lists import DeadFilter
from fairqueue.plain import count_jobs, counted, printable

Form = Mapping[str, str]
SCOPES = ("workspace", "queue", "task")


def _scope(form: Form) -> tuple[dict[str, str], str]:
    """Return the scope of a pause, and its name in words."""
    scope, name = form.get("scope", ""), form.get("name", "")
    if scope == "total":
        return {}, "everything"
    if scope not in SCOPES:
        raise ConfigurationError(f"the scope of a pause is {', '.join(SCOPES)} or total")
    return {scope: name}, f"{scope} {printable(name)}"


def _pause(view: View, form: Form) -> str:
    scope, words = _scope(form)
    view.queue.admin.pause(**scope)
    return f"Paused {words}. Running jobs finish; new jobs are accepted."


def _drain(view: View, form: Form) -> str:
    scope, words = _scope(form)
    view.queue.admin.drain(**scope)
    return f"Draining {words}. New jobs are rejected; waiting jobs run."


def _resume(view: View, form: Form) -> str:
    scope, words = _scope(form)
    before = view.queue.admin.resume(**scope)
    return f"Resumed {words}." if before else f"Nothing was paused: {words}."


def _set_limits(view: View, form: Form) -> str:
    scope = LimitScope(form)
    wanted = {limit: form[limit].strip() for limit in scope.edited if form.get(limit, "").strip()}
    if not wanted:
        raise ConfigurationError("no limit was entered: fill in at least one field")
    scope.set(view.queue, wanted)
    words = ", ".join(f"{limit} {printable(value)}" for limit, value in wanted.items())
    return f"Live limits of {scope}: {words}."


def _unset_limits(view: View, form: Form) -> str:
    scope = LimitScope(form)
    scope.unset(view.queue)
    return f"Removed the live limits of {scope}."


def _replay(view: View, form: Form) -> str:
    name, job = form.get("name", ""), given(form, "id", "the id of a dead job")
    if view.queue.admin.replay(name, job):
        return f"Job {printable(job)} waits again."
    raise ConfigurationError(f"there is no dead letter {job!r} in workspace {name!r} any more")


def _replay_all(view: View, form: Form) -> str:
    name = form.get("name", "")
    return f"{count_jobs(view.queue.admin.replay_all(name))} of {printable(name)} replayed."


def _chosen_dead(form: Form) -> DeadFilter:
    """Return the dead letters that a form means: without a filter it means none."""
    where = where_of(form)
    if not where:
        raise ConfigurationError("nothing chooses the dead letters: fill in at least one field")
    return filter_of(where)


def _replay_dead(view: View, form: Form) -> str:
    return f"{count_jobs(view.queue.admin.replay_dead(_chosen_dead(form)))} replayed."


def _delete_dead(view: View, form: Form) -> str:
    return f"{count_jobs(view.queue.admin.delete_dead(_chosen_dead(form)))} deleted."


def _purge_dead(view: View, form: Form) -> str:
    name, job = form.get("name", ""), given(form, "id", "the id of a dead job")
    return f"{count_jobs(view.queue.admin.purge_dead(name, job))} deleted."


CANCELLED = {
    Cancelled.REMOVED: "was removed before it started.",
    Cancelled.SIGNALLED: "is running; its worker learns of the cancel at its next renewal.",
    Cancelled.NOT_FOUND: "neither waits nor runs any more.",
}


def _cancel(view: View, form: Form) -> str:
    job, queue = given(form, "id", "the id of a job"), form.get("queue") or None
    return f"Job {printable(job)} {CANCELLED[view.queue.admin.cancel(job, queue=queue)]}"


def _examine(view: View, _: Form) -> str:
    return "The doctor looks." if view.checkup.begin() else "The doctor looks already."


def _repair(view: View, _: Form) -> str:
    return "The doctor mends." if view.checkup.begin(repair=True) else "The doctor looks already."


def _forget_aside(view: View, _: Form) -> str:
    return f"Forgotten: {counted(view.queue.admin.drop_set_aside(), 'record')}."


ACTIONS: dict[str, Callable[[View, Form], str]] = {
    "pause": _pause,
    "drain": _drain,
    "resume": _resume,
    "set-limits": _set_limits,
    "unset-limits": _unset_limits,
    "replay": _replay,
    "replay-all": _replay_all,
    "replay-dead": _replay_dead,
    "delete-dead": _delete_dead,
    "purge-dead": _purge_dead,
    "cancel": _cancel,
    "examine": _examine,
    "repair": _repair,
    "forget-aside": _forget_aside,
}
