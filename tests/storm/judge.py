"""Judges a storm by its ledger: what was published, when runs began and ended, and the faults.

A run that has no end was broken off, or its worker was killed. A run counts against its limit
from its start to its end, or until the fault that took its lease from it: the kill of its process,
a stop or a cut of its worker that was longer than a lease, or a cold stop. Acked early, it may
begin after that fault: its job starts even if its lease has ended.

The effect of a run is the value of a durable step: the store accepts one for each job, from a run
that has its lease.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Row = Mapping[str, Any]

BAD = ("lost", "above_limit", "stale", "twice", "untold", "stuck", "leaked")
FINAL = frozenset({"SUCCESS", "FAILURE", "REVOKED"})
STORED_SECONDS = 1.0
"""After this long a job's result is stored, and its run is over."""


@dataclass(frozen=True)
class Fault:
    """What was done, to which worker ("" for the server or all links), from when until when."""

    kind: str
    at: float
    until: float
    worker: str = ""
    pid: int | None = None

    def hits(self, run: Run) -> bool:
        """Return whether it may have ended the run, or taken its lease from it."""
        return self.worker in {"", run.worker} and self.pid in {None, run.pid}

    def takes(self, run: Run, lease_seconds: float) -> bool:
        """Return whether it may have taken the run's lease; a warm stop waits for its end."""
        if self.kind == "deploy":
            return self.hits(run) and run.end is None
        lasts = self.kind.startswith("kill") or self.until - self.at > lease_seconds / 3
        return lasts and self.hits(run)

    def repeats(self, run: Run, lease_seconds: float) -> bool:
        """Return whether it may let the job run again: in a full store a worker may end."""
        ends = self.kind in {"deploy", "fill_server"} and self.hits(run)
        return ends or self.takes(run, lease_seconds)


@dataclass(frozen=True)
class Run:
    """One start of a job, until its end if it had one."""

    n: int
    workspace: str
    worker: str
    pid: int
    claimed: float
    """When its lease began, at the latest: a fence is a time in microseconds."""
    start: float
    end: float | None

    def holds_until(
        self, faults: Sequence[Fault], lease_seconds: float, *, late: bool
    ) -> float | None:
        """Return until when it surely held a slot; None: maybe not even at its start."""
        since = self.start if late else self.claimed
        taken = [
            fault for fault in faults if fault.until > since and fault.takes(self, lease_seconds)
        ]
        if any(fault.until <= self.start for fault in taken):
            return None
        ends = [self.end] if self.end is not None else []
        return min([*ends, *(max(fault.at, self.start) for fault in taken)], default=self.start)


@dataclass(frozen=True)
class Verdict:
    """What must all be 0, and how much was played."""

    published: int
    faults: int
    again: int
    """Runs that were not the first of their job."""
    refused: int
    """Effects that were refused because the run had lost its lease."""
    lost: int
    """Published jobs that never ran, or, acked late, never came to an end."""
    above_limit: int
    """Starts of a workspace while as many of its jobs ran as may run at once."""
    stale: int
    """Jobs with an effect that was accepted after a later run began, or with two effects."""
    twice: int
    """Jobs that began again though no fault had touched their run."""
    untold: int
    """Jobs whose result is not final, or SUCCESS although they never came to an end."""
    stuck: int
    """Jobs that still waited long after the last fault."""
    leaked: int
    """Slots that were still taken then."""

    def _found(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in BAD}

    def __str__(self) -> str:
        told = ", ".join(f"{name.replace('_', ' ')} {n}" for name, n in self._found().items())
        late = f"{self.again} runs again, {self.refused} late effects refused"
        return f"{self.published} jobs, {self.faults} faults, {late}: {told}"

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not any(self._found().values())


def runs_of(rows: Iterable[Row]) -> list[Run]:
    """Pair each end with the start under its fence; the others were broken off."""
    rows = sorted(rows, key=lambda row: row["at"])
    offset = min((row["at"] - row["fence"] / 1e6 for row in rows if "fence" in row), default=0.0)
    began: dict[tuple[int, int], Row] = {}
    found: list[Run] = []
    for row in rows:
        if row["what"] not in {"start", "end"}:
            continue
        before = began.pop((row["n"], row["fence"]), None)
        if before is not None:
            found.append(_run(before, offset, row))
        if row["what"] == "start":
            began[row["n"], row["fence"]] = row
    found += [_run(row, offset) for row in began.values()]
    return sorted(found, key=lambda run: run.start)


def _run(start: Row, offset: float, then: Row | None = None) -> Run:
    end = then["at"] if then is not None and then["what"] == "end" else None
    claimed = start["fence"] / 1e6 + offset
    of = start["n"], start["workspace"], start["worker"], start["pid"]
    return Run(*of, claimed, start["at"], end)


def above_limit(
    runs: Sequence[Run],
    faults: Sequence[Fault],
    *,
    limit: int,
    late: bool,
    lease_seconds: float,
) -> int:
    """Count the starts that found as many runs of their workspace as may run at once."""
    found = 0
    running: dict[str, dict[int, float]] = defaultdict(dict)  # until when, by job
    for run in runs:
        mine = running[run.workspace]
        mine.pop(run.n, None)  # its slot is this run's now
        until = run.holds_until(faults, lease_seconds, late=late)
        if until is None:
            continue
        for n in [n for n, ends in mine.items() if ends <= run.start]:
            del mine[n]
        found += len(mine) >= limit
        mine[run.n] = until
    return found


def stale(rows: Iterable[Row]) -> set[int]:
    """Give the jobs with an effect of a run that had lost its lease, or with two effects."""
    began: dict[int, list[Row]] = defaultdict(list)
    effects: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["what"] in {"start", "effect"}:
            (began if row["what"] == "start" else effects)[row["n"]].append(row)
    return {
        n
        for n, mine in effects.items()
        if len(mine) > 1
        or any(
            run["fence"] > effect["fence"] and run["at"] < effect["began"]
            for effect in mine
            for run in began[n]
        )
    }


def began_twice(
    runs: Sequence[Run], faults: Sequence[Fault], *, late: bool, lease_seconds: float
) -> Iterator[int]:
    """Give the jobs that began again although no fault could take the lease of the run before.

    Acked late, a fault also touches what begins within a lease after it, on a lease from before
    it. Acked early, nothing is a reason: the store has the ack before the run.
    """
    by_job: dict[int, list[Run]] = defaultdict(list)
    for run in runs:
        by_job[run.n].append(run)
    for n, mine in by_job.items():
        for before, again in pairwise(mine):
            since = before.start - lease_seconds
            between = (f for f in faults if f.until >= since and f.at <= again.start)
            if not (late and any(fault.repeats(before, lease_seconds) for fault in between)):
                yield n


def untold(
    states: Mapping[int, str], runs: Sequence[Run], faults: Sequence[Fault], *, late: bool
) -> Iterator[int]:
    """Give the jobs of which the framework's results do not say how they ended.

    Acked early, one may stay untold whose worker was killed or replaced before its end, or just
    after it: it does not run again.
    """
    ended = {run.n: run for run in runs if run.end is not None}
    for n, state in states.items():
        if state == "SUCCESS" and n not in ended:
            yield n
        if state not in FINAL and (late or _could_tell(ended.get(n), faults)):
            yield n


def _could_tell(run: Run | None, faults: Sequence[Fault]) -> bool:
    """Whether the run came to its end, and its worker lived on."""
    if run is None or run.end is None:
        return False
    end = run.end
    touching = (f for f in faults if f.worker and f.hits(run) and f.until >= end)
    return not any(fault.at <= end + STORED_SECONDS for fault in touching)
