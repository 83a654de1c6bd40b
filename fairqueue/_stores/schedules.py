"""What a store knows of schedules: their records, and which are due."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fairqueue._keys import decode, encode
from fairqueue._lazy import rows
from fairqueue._stores.operators import OperatorStore
from fairqueue._types import Tick

SCHEDULES_AT_ONCE = 100


class StoredSchedule(NamedTuple):
    """The record of a schedule, as ``lua/state/schedules.lua`` lays it out; ``-`` is none."""

    workspace: str
    name: str
    runner: str
    next: str
    extra: str
    last: str
    outcome: str
    paused: str
    delay: str
    boot: str
    seen: str
    definition: str = "{}"

    @property
    def due(self) -> float:
        """When its next tick is to be published: 0 where a worker computes it, else inf, never."""
        if self.paused == "1":
            return math.inf
        return 0.0 if self.next == "-" else float(self.next) + float(self.delay)

    def row(self, now: float) -> rows.ScheduleRow:
        """Return it as people see it; a definition that cannot be read has no time or task."""
        try:
            read = json.loads(self.definition)
            when, task = dict(read["when"]), str(read["task"])
        except (ValueError, LookupError, TypeError):
            when, task = {}, ""
        outcome, _, missed = self.outcome.partition("/")
        kind, _, app = self.runner.partition("/")
        cron, every = when.pop("cron", None), when.pop("every", None)
        return rows.ScheduleRow(
            workspace=self.workspace,
            name=self.name,
            schedule=cron or ("unreadable" if every is None else f"every {every:g} s"),
            tz=when.pop("tz", ""),
            task=task,
            next=None if self.next == "-" else float(self.next),
            last=None if self.last == "-" else float(self.last),
            outcome=outcome.strip("-"),
            missed=int(missed or 0),
            paused=self.paused == "1",
            owner="" if self.boot == "-" else app or kind,
            runner=kind,
            late_seconds=max(0.0, now - self.due) if self.due else 0.0,
            options=when,
        )


class ScheduleStore(OperatorStore):
    """The operations on schedules."""

    def put_schedule(self, workspace: str, schedule: str, **record: str) -> tuple[int, str]:
        """Store a schedule, unless the same is there; return a status and the time.

        1: it is stored; 0: there is nothing to change; 2: its ``next`` tick, which was empty, is
        needed; -1: the workspace has too many. See the header of the operation.
        """
        record["runner"] = encode(record["runner"])
        named = {"workspace": encode(workspace), "schedule": encode(schedule)}
        status, now = self._call("put_schedule", **named, **record)
        return int(status), now.decode()

    def due_schedules(self, runners: Sequence[str], n: int) -> tuple[float, float, Any]:
        """Take up to ``n`` schedules that are due, for some seconds.

        Returns the time, in how many seconds to look again if all that are due were taken, and the
        schedules. One script passes a thousand schedules of other runners: it may take several.
        """
        names, start = f" {' '.join(map(encode, runners))} ", 0
        while True:
            reply = self._call("due_schedules", runners=names, n=n, start=start)
            now, seconds, start, *found = reply
            if found or not start:
                return float(now), float(seconds), _read(found)

    def change_schedule(
        self, workspace: str, schedule: str, how: str, tick: Tick | None = None
    ) -> bool:
        """Do one of ``pause``, ``resume``, ``trigger`` and ``remove``; False: there is none.

        If it is at this tick, ``advance``: go on to the one that follows without a job;
        ``fail``: note that it cannot be published.
        """
        named = {"workspace": encode(workspace), "schedule": encode(schedule)}
        text = "" if tick is None else tick.text()
        return bool(self._call("change_schedule", **named, how=how, tick=text))

    def schedules(
        self, workspace: str = "", schedule: str = ""
    ) -> Iterator[tuple[float, list[StoredSchedule]]]:
        """Yield the time and a page: all, in their order, or those of a workspace, or one of it."""
        named = {"workspace": encode(workspace), "schedule": encode(schedule)}
        for now, *found in self._steps("schedules", **named, count=SCHEDULES_AT_ONCE):
            yield float(now), _read(found)


def _read(found: Sequence[bytes]) -> list[StoredSchedule]:
    """Read entries and records; one that cannot be read is left to the auditor."""
    rows = []
    for entry, record in zip(found[::2], found[1::2], strict=True):
        head, _, definition = record.decode(errors="replace").partition("\n")
        runner, *words = head.split(" ")
        _, *names = entry.decode().split(" ")
        row = [*map(decode, [*names, runner]), *words, definition]
        if len(row) == len(StoredSchedule._fields):
            rows.append(StoredSchedule._make(row))
    return rows


def next_schedules(shards: Iterable[ScheduleStore]) -> Iterator[rows.ScheduleRow]:
    """Give the first hundred of each shard: the most overdue, then what is due next."""
    for shard in shards:
        now, page = next(shard.schedules(), (0.0, ()))
        yield from (row.row(now) for row in page)
