"""Health remarks that are not invariant violations: overdue leases, workers, old notices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairqueue._keys import decode
from fairqueue._stores.engine import Level, Remark
from fairqueue.audit.checks import Finding, Repair
from fairqueue.audit.shards import named
from fairqueue.audit.status import LATE_SECONDS
from fairqueue.audit.view import Audit
from fairqueue.plain import count_jobs, counted
from fairqueue.rows import BlockedWait, StoredLimitsRow, WorkerRow

SHOWN_WORKERS = 3
_ON_ALL_SHARDS = re.compile(r"(configured|live):(?!workspace:)")


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


def remarks(looks: Sequence[Audit]) -> Iterator[Remark]:
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
