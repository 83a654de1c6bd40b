"""Schedules of Celery tasks: put at run time, and those of ``beat_schedule``."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from fairqueue import ConfigurationError, FairQueue, Schedule
from fairqueue.adapters import Core, Due, Placed, Runner, Schedules, Ticker, workspace_of
from fairqueue_celery._channel.broker import queue_of
from fairqueue_celery._publish.batch import batch
from fairqueue_celery._publish.call import EXPLICIT, call_in

FIELDS = {
    "minute": range(60),
    "hour": range(24),
    "day_of_month": range(1, 32),
    "month_of_year": range(1, 13),
    "day_of_week": range(7),
}
"""Of a crontab, in the order of a cron line."""
logger = logging.getLogger("fairqueue_celery.worker")
CLEANUP = "celery.backend_cleanup"


def schedules_of(app: Any) -> Schedules:
    """Return the schedules of an app's namespace: to put, list, pause and remove them.

    ``put`` takes a signature, such as ``report.s(7)``. Any Celery worker of the namespace publishes
    its ticks, by the routes of its own app. Raises ConfigurationError if the app's broker is not
    ``fairqueue://``.
    """
    core = queue_of(app).schedules.core
    return Schedules(core, CeleryRunner(app, core))


class CeleryRunner(Runner):
    """Publishes ticks as the app's other publishes: with its signals, headers and routes."""

    kind = "celery"

    def __init__(self, app: Any, core: Core) -> None:
        super().__init__(core, core.settings.app or app.main or "")
        self._app = app
        self._declared: list[tuple[Placed, Schedule]] = []

    def call_of(self, what: Any) -> tuple[str, dict[str, Any], Any]:
        """Keep what a call puts, if the task takes these arguments."""
        task, call, workspace = self._call_of(what)
        known = self._app.tasks.get(task)
        if known is not None and known.typing and hasattr(known, "__header__"):
            try:
                known.__header__(*call["args"], **call["kwargs"])
            except TypeError as error:
                raise ConfigurationError(f"task {task} takes other arguments: {error}") from None
        return task, call, workspace

    def _call_of(self, what: Any) -> tuple[str, dict[str, Any], Any]:
        """Keep a task's name, arguments and options; its workspace is found as for a publish."""
        if not isinstance(what, dict) or "task" not in what or what.get("subtask_type"):
            raise ConfigurationError(
                "a schedule publishes the signature of one task, such as report.s(7): let that "
                "task begin a chain or group"
            )
        found = call_in(what)
        call = {"task": found.task, "args": found.args, "kwargs": found.kwargs}
        call["options"] = what.get("options") or {}
        return found.task, call, workspace_of(found, self._core.settings.workspace_from)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Publish many in one call."""
        with batch(self._app):
            yield

    def publish(self, due: Due) -> None:
        """Publish one task."""
        name, args, kwargs = (due.call[key] for key in ("task", "args", "kwargs"))
        options = {**due.call["options"], EXPLICIT: due.workspace, "task_id": due.message_id}
        if due.unique_key is not None:
            options["unique_key"] = due.unique_key
        task = self._app.tasks.get(name)
        send = partial(self._app.send_task, name) if task is None else task.apply_async
        send(args, kwargs, **options)

    def declared(self) -> Iterable[tuple[Placed, Schedule]]:
        """Give the entries of ``beat_schedule``, with ``run_beat_schedule``."""
        return self._declared

    def declare(self) -> None:
        """Declare ``beat_schedule``; raises ConfigurationError for a bad entry."""
        entries = beat_entries(self._app)
        if entries and len(self.names) == 1:
            raise ConfigurationError(
                "set Celery('shop') or app=…: declared schedules need an owner, so that those of "
                "another app stay"
            )
        self._declared = [self._read(*entry) for entry in entries.items()]
        if entries:
            logger.info("fairqueue: the workers publish beat_schedule: %s", ", ".join(entries))

    def _read(self, name: str, entry: dict[str, Any]) -> tuple[Placed, Schedule]:
        try:
            when = _when(self._app, entry["schedule"], relative=entry.get("relative") or False)
            return self.placed(name, *self._call_of(entry)), when  # as beat, unchecked
        except ConfigurationError as error:
            raise ConfigurationError(f"beat_schedule[{name!r}]: {error}") from None


def ticker_of(app: Any, core: FairQueue) -> Ticker:
    """Return what publishes ticks in a worker; raises ConfigurationError for a bad entry."""
    runner = CeleryRunner(app, core.schedules.core)
    if core.settings.run_beat_schedule:
        runner.declare()
    return Ticker(core.schedules.core, runner)


def beat_entries(app: Any) -> dict[str, Any]:
    """Return ``beat_schedule``, and what ``celery beat`` adds to it."""
    from celery.schedules import crontab  # noqa: PLC0415 - kombu alone does without Celery

    entries = dict(app.conf.beat_schedule)
    conf = app.conf
    if conf.result_backend and conf.result_expires and not app.backend.supports_autoexpire:
        at_four = {"schedule": crontab("0", "4", "*"), "options": {"expires": 12 * 3600}}
        entries.setdefault(CLEANUP, {"task": CLEANUP, **at_four})
    return entries


def _when(app: Any, due: Any, *, relative: bool) -> Schedule:
    """Read a schedule of Celery's; raises ConfigurationError for what only its beat can run."""
    from celery.schedules import crontab, maybe_schedule, schedule  # noqa: PLC0415 - as above

    due = maybe_schedule(due, relative)
    if type(due) is schedule and not due.relative:
        return Schedule(every=due.run_every)
    if type(due) is not crontab:
        raise ConfigurationError(
            f"workers cannot run a schedule of type {type(due).__name__}: run it with 'celery "
            "beat', and leave it out of an app with run_beat_schedule"
        )
    fields = dict(_fields(due))
    both_days = "*" not in {fields["day_of_month"], fields["day_of_week"]}
    zone = getattr(app.timezone, "key", None) or str(app.timezone)
    return Schedule(cron=" ".join(fields.values()), tz=zone, both_days=both_days)


def _fields(due: Any) -> Iterator[tuple[str, str]]:
    """Write each field; where one begins with ``*``, cron follows real time as clocks change."""
    for name, every in FIELDS.items():
        values, written = getattr(due, name), str(getattr(due, f"_orig_{name}", ""))
        text = written if re.fullmatch(r"\*/\d+", written) else ",".join(map(str, sorted(values)))
        yield name, "*" if values == set(every) else text
