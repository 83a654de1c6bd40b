"""Remarks from lists alone, without a look at every key: what ``fairqueue status`` tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairqueue._reports import DeadLetter
from fairqueue._stores.engine import Level, Remark
from fairqueue.plain import count_jobs, counted, duration
from fairqueue.rows import (
    Demand,
    PauseRow,
    QueueRow,
    Runnable,
    RunningJob,
    ScheduleRow,
    StoredLimitsRow,
)
from fairqueue.rows import WorkerRow as Worker

LATE_SECONDS = 60.0
"""Workers poll every few seconds: what waits for one for longer is reported."""
RECENT_SECONDS = 3600.0
"""Silent workers and dead letters count for as long."""
TIMES_AVERAGE = 10
SHOWN = 3
PRECEDENCE = ("configured", "limit_provider", "live")


@dataclass(frozen=True, slots=True)
class Status:
    """The answer to "is anything wrong?", in one line and its reasons."""

    running: int
    waiting: int
    """Scheduled jobs included."""
    workers: int
    """Those that live."""
    remarks: tuple[Remark, ...]

    @property
    def level(self) -> Level:
        """The worst of its remarks."""
        levels = {one.level for one in self.remarks}
        return next((each for each in (Level.PROBLEM, Level.WARNING) if each in levels), Level.INFO)

    @property
    def reasons(self) -> tuple[Remark, ...]:
        """The problems, then the warnings."""
        levels = Level.PROBLEM, Level.WARNING
        return tuple(one for level in levels for one in self.remarks if one.level is level)

    @property
    def line(self) -> str:
        """All of it in one line."""
        counts = Counter(one.level for one in self.remarks)
        told = [
            counted(counts[level], level.value)
            for level in (Level.PROBLEM, Level.WARNING)
            if counts[level]
        ]
        now = f"{self.running:,} running, {self.waiting:,} waiting"
        return f"{', '.join(told) or 'ok'}: {now}, {counted(self.workers, 'worker')}"


def late_queues(rows: Iterable[tuple[QueueRow, Runnable]]) -> list[tuple[QueueRow, float]]:
    """Return the queues whose oldest runnable job is late, and by how many seconds."""
    return [
        (row, found.oldest_seconds)
        for row, found in rows
        if found.oldest_seconds is not None and found.oldest_seconds > LATE_SECONDS
    ]


def stuck_queues(
    late: Iterable[tuple[QueueRow, float]], workers: Sequence[Worker]
) -> Iterator[Remark]:
    """Queues with runnable jobs from which nothing was claimed for long."""
    for row, oldest in late:
        seconds = oldest if row.idle_seconds is None else min(row.idle_seconds, oldest)
        if seconds <= LATE_SECONDS:
            continue
        taken = any(worker.takes(row.queue) or not worker.names_all_queues for worker in workers)
        remedy = "check whether its workers are busy or stuck" if taken else "start a worker for it"
        text = (
            f"queue {row.queue!r} has runnable jobs of {counted(row.runnable, 'workspace')}, and "
            f"none was claimed for {seconds:,.0f} s: {remedy}"
        )
        yield Remark(Level.PROBLEM, "queues", text)


def missing_slots(demand: Mapping[str, Demand]) -> Iterator[Remark]:
    """Queues whose late jobs could start at once, if their workers had more slots."""
    for queue, of in demand.items():
        if of.worker_slots and of.slots_wanted > of.worker_slots:
            text = (
                f"queue {queue!r} could use {counted(of.slots_wanted, 'worker slot')}, and its "
                f"workers have {of.worker_slots:,}: start more workers, or lower a limit"
            )
            yield Remark(Level.WARNING, "slots", text)


def silent_workers(workers: Sequence[Worker]) -> Iterator[Remark]:
    """Workers that gave no sign of life any more, and did not say that they stop.

    It is a problem if they hold jobs and no worker lives that could free their slots.
    """
    lives = {row.worker for row in workers if row.is_alive}
    for row in workers:
        is_back = row.worker in lives and not row.running
        is_over = row.lease_seconds == 0 or row.silent_seconds >= RECENT_SECONDS
        if row.is_alive or is_back or is_over:
            continue
        then = "those acked late start again elsewhere" if lives else "no worker lives: start one"
        held = f" with {count_jobs(row.running)}; {then}" * (row.running > 0)
        text = f"worker {row.worker!r} is silent for {duration(row.silent_seconds)}{held}"
        yield Remark(
            Level.WARNING if lives or not row.running else Level.PROBLEM,
            "workers",
            text if held else f"{text}: see why",
        )


def late_schedules(rows: Iterable[ScheduleRow]) -> Iterator[Remark]:
    """Schedules with ticks that no worker publishes, or can publish."""
    late = [
        row
        for row in rows
        if row.late_seconds > LATE_SECONDS or (row.outcome == "failed" and not row.paused)
    ]
    if not late:
        return
    row = max(late, key=lambda row: row.late_seconds)
    others = f" (and {counted(len(late) - 1, 'other')})" if late[1:] else ""
    is_late = f"is {duration(row.late_seconds)} late"
    trouble = "cannot be published" if row.outcome == "failed" else is_late
    text = (
        f"schedule {row.name!r} of workspace {row.workspace!r}{others} {trouble}: start a worker "
        f"({row.runner}), or see in the worker's log why it cannot publish it"
    )
    yield Remark(Level.WARNING, "schedules", text)


def long_jobs(jobs: Iterable[RunningJob], averages: Mapping[str, float | None]) -> Iterator[Remark]:
    """Tasks with jobs that run far longer than their average."""
    found: dict[str, list[RunningJob]] = {}
    for job in jobs:
        if job.seconds > max(LATE_SECONDS, TIMES_AVERAGE * (averages.get(job.task) or job.seconds)):
            found.setdefault(job.task, []).append(job)
    for task, late in sorted(found.items()):
        longest = max(late, key=lambda job: job.seconds)
        text = (
            f"task {task!r} has {count_jobs(len(late))} running for more than {TIMES_AVERAGE} times"
            f" its average of {duration(averages[task])}; the longest, {longest.job_id!r} of "
            f"workspace {longest.workspace!r}, for {duration(longest.seconds)} on "
            f"{longest.worker!r}"
        )
        yield Remark(Level.WARNING, "running", text)


def recent_deaths(letters: Sequence[DeadLetter], *, most: int) -> Iterator[Remark]:
    """Count the dead letters of the last hour, and name their most frequent kind.

    Of ``most`` there may be others.
    """
    if not letters:
        return
    kinds = Counter((letter.job.task, letter.reason) for letter in letters)
    ((task, reason), _), *_ = kinds.most_common(1)
    told = f"{count_jobs(len(letters))}{' or more' * (len(letters) >= most)}"
    text = (
        f"{told} died within the last hour, for example of task {task!r}: {reason}; "
        "see fairqueue dead count --since 1h"
    )
    yield Remark(Level.WARNING, "dead", text)


def paused(rows: Sequence[PauseRow]) -> Iterator[Remark]:
    """Name what is paused or draining, the longest first."""
    if not rows:
        return
    told = ", ".join(
        f"{row.scope}{f' {row.name!r}' if row.name else ''} {row.state.value} for "
        f"{duration(row.seconds)}"
        for row in rows[:SHOWN]
    )
    more = f" and {counted(len(rows) - SHOWN, 'other')}" * (len(rows) > SHOWN)
    yield Remark(Level.WARNING, "pauses", f"{told}{more}; see fairqueue pauses")


def contradictions(rows: Sequence[StoredLimitsRow]) -> Iterator[Remark]:
    """Limits that can never be reached, and reserves that cannot all be kept."""
    force: dict[tuple[str, str], dict[str, float]] = {}
    for row in (row for source in PRECEDENCE for row in rows if row.source == source):
        numbers = {k: v for k, v in row.limits.items() if not isinstance(v, str)}
        force.setdefault((row.scope, row.name), {}).update(numbers)
    most = force.get(("total", ""), {}).get("concurrency")
    if most is None:
        return
    above = [at for at, of in sorted(force.items()) if of.get("concurrency", 0) > most]
    for scope, name in above[:SHOWN]:
        where = f"{scope} {name!r}" if name else scope
        n = force[scope, name]["concurrency"]
        text = f"concurrency {n:g} of {where} is never reached: that of everything is {most:g}"
        yield Remark(Level.WARNING, "limits", text)
    reserved = sum(of.get("reserve", 0) for (scope, _), of in force.items() if scope == "workspace")
    if reserved > most:
        text = f"reserves of {reserved:g} in all cannot be kept: concurrency of all is {most:g}"
        yield Remark(Level.WARNING, "limits", text)
