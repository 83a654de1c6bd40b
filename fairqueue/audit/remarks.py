"""Remarks on the servers, the workers, the queues and the limits: no invariant is broken.

Those of a :class:`Status` come from lists alone. A :class:`Checkup` has them and those of a look at
every key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fairqueue._keys import decode
from fairqueue._reports import DeadLetter
from fairqueue._stores.engine import Engine, Level, Remark
from fairqueue._stores.layout import change_under_way, mark_of, moves_from
from fairqueue._stores.sharded.asking import PROBED_QUEUE
from fairqueue._stores.store import Store, StoreBase
from fairqueue.audit.checks import Finding, Repair
from fairqueue.audit.view import Audit
from fairqueue.errors import StoreUnavailable
from fairqueue.plain import count_jobs, counted, duration
from fairqueue.rows import (
    BlockedWait,
    Demand,
    PauseRow,
    QueueRow,
    Runnable,
    RunningJob,
    ScheduleRow,
    StoredLimitsRow,
    WorkerRow,
)

T = TypeVar("T", Finding, Remark, Repair)
LATE_SECONDS = 60.0
"""Workers poll every few seconds: what waits for one for longer is reported."""
RECENT_SECONDS = 3600.0
"""Silent workers and dead letters count for as long."""
TIMES_AVERAGE = 10
SHOWN = 3
PRECEDENCE = ("configured", "limit_provider", "live")
SHOWN_WORKERS = 3
_ON_ALL_SHARDS = re.compile(r"(configured|live):(?!workspace:)")


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


@dataclass(frozen=True, slots=True)
class Checkup:
    """What ``fairqueue doctor`` has found."""

    namespace: str
    remarks: tuple[Remark, ...]
    findings: tuple[Finding, ...]
    """Findings that are left after the repairs, if there were any."""
    repairs: tuple[Repair, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing needs an operator."""
        return not self.findings and all(one.level is not Level.PROBLEM for one in self.remarks)


def servers_away(store: StoreBase) -> dict[str, StoreUnavailable]:
    """Return the servers that do not answer. Raise if none does."""
    servers = {shard.engine.server: shard for shard in store.shards}
    away: dict[str, StoreUnavailable] = {}
    for server, shard in servers.items():
        try:
            shard.is_plain(PROBED_QUEUE)
        except StoreUnavailable as error:
            away[server] = error
    if len(away) == len(servers):
        raise next(iter(away.values()))
    return away


def of_away(store: StoreBase, away: Mapping[str, StoreUnavailable]) -> Iterator[Remark]:
    """Yield a remark for each server that does not answer: its shards are not looked at."""
    for server, error in away.items():
        shards = [str(n) for n, one in enumerate(store.shards) if one.engine.server == server]
        text = f"{server}: {error}; not looked at: shard {', '.join(shards)}"
        yield Remark(Level.PROBLEM, "server", text)


def named(of_shards: Sequence[Iterable[T]], numbers: Sequence[int] = ()) -> Iterator[T]:
    """Yield what was found on each shard, in order; of several, the texts name the shard.

    ``numbers``: the numbers of the shards, if some are missing.
    """
    is_one = len(of_shards) == 1 and not any(numbers)
    for shard, found in zip(numbers or range(len(of_shards)), of_shards, strict=True):
        for one in found:
            yield one if is_one else replace(one, text=f"shard {shard}: {one.text}")


def of_layout(shards: Sequence[Store]) -> Iterator[Remark]:
    """Yield a remark if the number of shards is changing."""
    engine = shards[0].engine
    change = change_under_way(mark_of(engine), moves_from(engine))
    if change is None:
        return
    yield Remark(
        Level.WARNING,
        "shards",
        f"workspaces are on their way from {change.shards} to {change.to} shards: unless a "
        f"process moves them, run fairqueue reshard --to {change.to}",
    )


def of_servers(shards: Sequence[Store]) -> Iterator[Remark]:
    """Ask each server once; of several, the texts name the server."""
    engines: dict[str, Engine] = {}
    for shard in shards:
        engines.setdefault(shard.engine.server, shard.engine)
    for server, engine in engines.items():
        for one in engine.remarks():
            yield replace(one, text=f"{server}: {one.text}") if len(engines) > 1 else one


def late_queues(rows: Iterable[tuple[QueueRow, Runnable]]) -> list[tuple[QueueRow, float]]:
    """Return the queues whose oldest runnable job is late, and by how many seconds."""
    return [
        (row, found.oldest_seconds)
        for row, found in rows
        if found.oldest_seconds is not None and found.oldest_seconds > LATE_SECONDS
    ]


def stuck_queues(
    late: Iterable[tuple[QueueRow, float]], workers: Sequence[WorkerRow]
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


def silent_workers(workers: Sequence[WorkerRow]) -> Iterator[Remark]:
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


def failing_workers(workers: Sequence[WorkerRow]) -> Iterator[Remark]:
    """Work beside jobs that has just failed, such as renewals; a worker's log says why."""
    found: dict[str, list[WorkerRow]] = {}
    for row in workers:
        for what, *_ in row.failing if row.is_alive else ():
            found.setdefault(what, []).append(row)
    for what, rows in sorted(found.items()):
        row = rows[0]
        count, ago = next((n, ago) for name, n, ago in row.failing if name == what)
        last = duration(ago + row.silent_seconds)
        others = f"; so in {counted(len(rows) - 1, 'other worker')}" if rows[1:] else ""
        text = (
            f"worker {row.worker!r} failed {counted(count, 'time')} at {what}, the last time "
            f"{last} ago: its log says why{others}"
        )
        yield Remark(Level.WARNING, "workers", text)


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


def of_looks(looks: Sequence[Audit]) -> Iterator[Remark]:
    """Yield remarks from a look at each shard."""
    yield from named([_of_shard(look) for look in looks], [look.space.shard for look in looks])
    yield from _unshared(looks)


def waits(noted: Iterable[BlockedWait]) -> Iterator[Remark]:
    """Give the jobs that wait for others in vain."""
    yield from (Remark(Level.WARNING, "waits", wait.text) for wait in noted)


def _of_shard(look: Audit) -> Iterator[Remark]:
    yield from _overdue(look)
    yield from _notices(look)
    if look.ahead > 0:
        text = f"Redis's clock went back: it is {look.ahead:,.1f} s behind, 3 s less each minute"
        yield Remark(Level.WARNING, "clock", text)
    if float(look.space.one("shard", {}).get("imports_suspended", 0)) > look.now:
        yield Remark(Level.WARNING, "imports", "imports are suspended while jobs are exported")


def _overdue(a: Audit) -> Iterator[Remark]:
    """Leases and timers that any worker's claim would have ended or fired."""
    what = (
        (a.space.lease_ends, "expired and not reaped: {}; their jobs do not run again", "lease"),
        (a.space.one("timer", {}), "due and not fired: {}; scheduled jobs do not start", "timer"),
    )
    for times, meaning, noun in what:
        late = [at for at in times.values() if at < a.now - LATE_SECONDS]
        if late:
            told = meaning.format(counted(len(late), noun))
            text = f"{told}; the oldest since {a.now - min(late):,.0f} s"
            yield Remark(Level.PROBLEM, "workers", f"{text}. No worker claims: start one")


def _notices(a: Audit) -> Iterator[Remark]:
    for (queue,), notices in sorted(a.space.all("unreported")):
        late = [at for at in notices.values() if at < a.now - LATE_SECONDS]
        if late:
            text = (
                f"not reported to their framework: {counted(len(late), 'failure')} of jobs of "
                f"queue {decode(queue)!r}, the oldest since {a.now - min(late):,.0f} s: start a "
                "worker of that queue that knows their tasks"
            )
            yield Remark(Level.PROBLEM, "notices", text)


def _unshared(looks: Sequence[Audit]) -> Iterator[Remark]:
    """Limits over all shards that are missing or differ on some."""
    found = [_wide(look) for look in looks]
    for field in sorted({field for of_shard in found for field in of_shard}):
        texts = [of_shard.get(field, "none") for of_shard in found]
        if len(set(texts)) > 1:
            source, scope, name = field.split(":", 2)
            told = ", ".join(f"{text} on shard {n}" for n, text in enumerate(texts))
            text = (
                f"the {source} limits of {scope} {decode(name)!r} differ: {told}; a shard was "
                "away when they were set or removed: do that again"
            )
            yield Remark(Level.WARNING, "limits", text)


def _wide(a: Audit) -> dict[str, str]:
    """The limits that all shards store, without those of workspaces and pauses."""
    found = a.space.one("limits", {}).items()
    return {field: text for field, text in found if _ON_ALL_SHARDS.match(field)}


def of_workers(workers: Sequence[WorkerRow]) -> Iterator[Remark]:
    """Say what lives, and which workers replace each other's limits."""
    by_software: dict[str, int] = {}
    for row in workers:
        name = row.software or "a release that does not say which"
        by_software[name] = by_software.get(name, 0) + 1
    told = ", ".join(f"{n:,} × {name}" for name, n in sorted(by_software.items()))
    own = {word for name in by_software for word in name.split() if word.startswith("fairqueue/")}
    level = Level.WARNING if len(own) > 1 else Level.INFO
    yield Remark(level, "workers", f"alive: {told or 'none'}")
    yield from _limits_of_workers(workers)


def _limits_of_workers(workers: Sequence[WorkerRow]) -> Iterator[Remark]:
    """Workers of two apps or releases that replace each other's limits."""
    by_limits: dict[str, list[str]] = {}
    for row in workers:
        if row.limits:
            by_limits.setdefault(row.limits, []).append(row.worker)
    if len(by_limits) > 1:
        told = " · ".join(
            ", ".join(repr(name) for name in names[:SHOWN_WORKERS])
            + f" and {counted(len(names) - SHOWN_WORKERS, 'other')}" * (len(names) > SHOWN_WORKERS)
            for names in by_limits.values()
        )
        text = (
            "living workers are configured with different limits, and each that starts replaces "
            f"those of the others: {told}; give all the same limits, or each app a namespace"
        )
        yield Remark(Level.WARNING, "limits", text)


def unknown_tasks(found: Mapping[str, int]) -> Iterator[Remark]:
    """Say which jobs no living worker can run."""
    for task, n in sorted(found.items()):
        text = (
            f"{count_jobs(n)} of task {task!r}, which no living worker of the queue knows: start a "
            "worker that has it, or purge them"
        )
        yield Remark(Level.WARNING, "tasks", text)


def limits_remark(rows: Sequence[StoredLimitsRow]) -> Iterator[Remark]:
    """Return a remark on the limits that were stored last, and by which process."""
    known = [row for row in rows if row.stored_at is not None]
    if not known:
        return
    newest = max(known, key=lambda row: row.stored_at or 0.0)
    where = f"{newest.scope} {newest.name!r}" if newest.name else newest.scope
    text = f"stored: {len(rows):,}; the newest, of {where} ({newest.source}), by"
    yield Remark(Level.INFO, "limits", f"{text} {newest.stored_by}")
