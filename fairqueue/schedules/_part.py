"""Put, list and change schedules: ``queue.schedules``."""

from __future__ import annotations

from itertools import islice
from typing import Any
from uuid import UUID

from fairqueue._chores import Chores
from fairqueue._context import current_workspace
from fairqueue._lazy import rows
from fairqueue._stores.schedules import next_schedules
from fairqueue._types import Admission, Job
from fairqueue._validation import check_name, name_or_none
from fairqueue.errors import ConfigurationError
from fairqueue.schedules._ticker import PUT_BY_CALL, STORED, Core, Placed, Runner, Ticker
from fairqueue.schedules._timing import Schedule


class Schedules:
    """Schedules of a workspace, put and changed at run time; workers publish their ticks.

    Each tick is at most one job, whatever processes are killed or stopped, and none is lost while a
    worker lives. All calls raise ConfigurationError for what is not allowed, with nothing changed,
    and StoreUnavailable if the store cannot be reached.
    """

    def __init__(self, core: Core, runner: Runner | None = None) -> None:
        self.core, self._runner = core, runner or Runner(core)

    def start(self) -> Chores:
        """Publish ticks in a thread of this process, until the result's ``stop`` is called.

        Celery's and Dramatiq's workers do so by themselves.
        """
        return Chores(Ticker(self.core)).start()

    def put(
        self,
        name: str,
        what: Any,
        *,
        workspace: str | int | UUID | None = None,
        schedule: Schedule | None = None,
        **when: Any,
    ) -> bool:
        """Store a schedule under a name of its workspace, and replace one that is there.

        ``when`` are the arguments of :class:`fairqueue.Schedule`, which may be given itself as
        ``schedule``. The workspace is the given one, else that of the surroundings, else the
        default one. Returns whether anything has changed: the same schedule again changes nothing,
        and its next tick stays. A task that no living worker knows is warned of or refused, by
        ``on_unknown_task``.
        """
        if (schedule is None) == (not when):
            raise ConfigurationError(
                "give a schedule=, or arguments of one, such as cron= or every="
            )
        task, call, own = self._runner.call_of(what)
        places = (workspace, own, current_workspace(), self.core.settings.default_workspace)
        given = check_name("workspace", next(place for place in places if place is not None))
        placed = Placed(self._runner.kind, given, _checked(name), task, call)
        job = Job("", given, "", call.get("task", task), b"")  # any queue: routes may change
        self.core.registry.refuse(job, Admission())
        store = self.core.connection.connected()
        status, _ = placed.put(store, schedule or Schedule(**when), PUT_BY_CALL)
        self.core.registry.warn(job)
        return status == STORED

    def get(self, name: str, *, workspace: str | int | UUID) -> rows.ScheduleRow | None:
        """Return one; None: there is none of this name."""
        named = check_name("workspace", workspace), _checked(name)
        pages = self.core.connection.reached().schedules(*named)
        return next((row.row(now) for now, page in pages for row in page), None)

    def lateness(self) -> float:
        """Return for how many seconds a tick is due at most, of the first hundred of each shard."""
        rows = next_schedules(self.core.connection.reached().shards)
        return max((row.late_seconds for row in rows), default=0.0)

    def list(
        self, workspace: str | int | UUID | None = None, *, most: int | None = None
    ) -> list[rows.ScheduleRow]:
        """Return those of a workspace, or all, the next one first; at most the first ``most``."""
        pages = self.core.connection.reached().schedules(name_or_none("workspace", workspace) or "")
        found = islice((row.row(now) for now, page in pages for row in page), most)
        return sorted({(row.workspace, row.name): row for row in found}.values(), key=_next)

    def remove(self, name: str, *, workspace: str | int | UUID) -> bool:
        """Remove one; its jobs stay. False: there is none.

        One that workers declare comes back while one of them lives: pause that.
        """
        return self._change(name, workspace, "remove")

    def pause(self, name: str, *, workspace: str | int | UUID) -> bool:
        """Publish none of its ticks until :meth:`resume`; False: there is none."""
        return self._change(name, workspace, "pause")

    def resume(self, name: str, *, workspace: str | int | UUID) -> bool:
        """Go on from now: ticks of the pause are not caught up. False: there is none."""
        return self._change(name, workspace, "resume")

    def trigger(self, name: str, *, workspace: str | int | UUID) -> bool:
        """Let a worker publish its job now, beside its ticks, also if it is paused.

        False: there is none.
        """
        return self._change(name, workspace, "trigger")

    def _change(self, name: str, workspace: str | int | UUID, how: str) -> bool:
        named = check_name("workspace", workspace), _checked(name)
        return self.core.connection.reached().change_schedule(*named, how)


def _checked(name: str) -> str:
    return check_name("schedule", name)


def _next(row: rows.ScheduleRow) -> tuple[bool, float, str, str]:
    return row.paused, row.next or 0.0, row.workspace, row.name
