"""Counts in memory what one process sees happen to jobs, without calls to the store.

Some of it is for metrics, if they are on. The activity is sent to the store now and then.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fairqueue._activity import HAPPENINGS, OTHER, WAITS, Happened
from fairqueue._background import BackgroundLoop
from fairqueue._threads import in_forked_children, native_lock
from fairqueue._types import Ending, Finish, Job, JobId, Lease
from fairqueue.errors import CapacityExceeded, FairQueueError

_sending = BackgroundLoop("activity", logging.getLogger("fairqueue.activity"))

BOUNDS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""Upper bounds of a histogram's buckets, in seconds."""

OTHERS = "other"
"""The label of all other workspaces; a workspace of this name has no label of its own."""

MOST_HELD = 10_000  # leases that are remembered until they end
CANDIDATES = 10  # as a multiple of the labels: workspaces that are compared
FADES_AFTER = 1_000  # events after which all earlier ones count half
AHEAD = 2.0  # how many times as busy a workspace must be to take another's label

MINUTE_SENT_EVERY, HOUR_SENT_EVERY = 10.0, 60.0
MANY, FEW_SENT_EVERY = 30, 30.0
"""Starts and rejections that are worth a call; fewer are sent later."""
COUNTS = len(HAPPENINGS) + len(WAITS) + 1
MOST_ROWS = 1_000  # until it is sent; what happens to other jobs meanwhile is one row
LEAST_ROWS, JOBS_OF_A_ROW = 30, 10
STARTS, REJECTIONS, WORKED = map(HAPPENINGS.index, ("starts", "rejections", "milliseconds"))
SLOT = 10_000  # milliseconds that count as much as a start

Labels = tuple[str, ...]
Key = tuple[str, str, str]
"""Workspace, queue and task."""
Names = tuple[str | None, str | None, str | None]
Rows = dict[Names, list[int]]
Send = Callable[[int, Happened], object]
"""Stores what has happened in a minute or an hour, given in seconds."""


@dataclass
class Histogram:
    """Counts of waits or runs by upper bound, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class Busiest:
    """Chooses the workspaces with a label of their own: those with most recent events."""

    def __init__(self, most: int) -> None:
        self._most, self._seen = most, 0
        self._events: dict[str, float] = {}
        self._named: set[str] = set()

    def label(self, workspace: str) -> tuple[str, str | None]:
        """Note an event; return the workspace's label, and the workspace that lost its label."""
        if self._most == 0 or workspace == OTHERS:
            return OTHERS, None
        self._fade()
        self._events[workspace] = events = self._events.get(workspace, 0.0) + 1
        least = None
        if workspace not in self._named and len(self._named) == self._most:
            least = min(self._named, key=self._events.__getitem__)
            if events <= AHEAD * self._events[least] + 1:
                return OTHERS, None
            self._named.remove(least)
        self._named.add(workspace)
        return workspace, least

    def _fade(self) -> None:
        """Let earlier events count less, and forget the least busy of too many workspaces."""
        self._seen += 1
        if self._seen % FADES_AFTER == 0:
            self._events = {name: events / 2 for name, events in self._events.items()}
        if len(self._events) >= (1 + CANDIDATES) * self._most:
            del self._events[min(self._events.keys() - self._named, key=self._events.__getitem__)]


class Unsent:
    """Adds up what happens to jobs until it is sent: soon for this minute, later for this hour."""

    def __init__(self) -> None:
        self._rows: Rows = {}
        self._n = 0
        self._of_hour: Rows = {}
        self._sent = self._hour_sent = time.monotonic()

    def add(self, job: Key, what: str, n: int = 1) -> None:
        _row(self._rows, job)[HAPPENINGS.index(what)] += n
        self._n += n if what == "rejections" else 0

    def started(self, job: Key, waited_seconds: float | None) -> None:
        row = _row(self._rows, job)
        row[STARTS] += 1
        self._n += 1
        if waited_seconds is not None:
            row[len(HAPPENINGS) + bisect_left(WAITS, waited_seconds)] += 1

    def take(self, *, now: bool) -> Iterator[tuple[int, Happened]]:
        """Yield what is to be sent for a minute and an hour, and forget it: if due, or ``now``."""
        at = time.monotonic()
        every = MINUTE_SENT_EVERY if self._n >= MANY else FEW_SENT_EVERY
        if self._rows and (now or at - self._sent >= every):
            rows, self._rows, self._sent, self._n = self._rows, {}, at, 0
            _join(self._of_hour, rows.items())
            yield 60, _busiest(rows)
        if self._of_hour and (now or at - self._hour_sent >= HOUR_SENT_EVERY):
            rows, self._of_hour, self._hour_sent = self._of_hour, {}, at
            yield 3600, _busiest(rows)


def _row(rows: Rows, job: Names) -> list[int]:
    is_one = job in rows or len(rows) < MOST_ROWS
    return rows.setdefault(job if is_one else (OTHER, OTHER, OTHER), [0] * COUNTS)


def _join(rows: Rows, others: Iterable[tuple[Names, list[int]]]) -> None:
    for names, counts in others:
        row = _row(rows, names)
        row[:] = map(int.__add__, row, counts)


def _busiest(rows: Rows) -> Happened:
    """Join workspaces, and then tasks, where jobs are hardly more than rows: a row costs most."""
    size = {
        names: row[STARTS] + row[REJECTIONS] + row[WORKED] / SLOT for names, row in rows.items()
    }
    most = max(LEAST_ROWS, int(sum(size.values())) // JOBS_OF_A_ROW)
    ordered = sorted(rows.items(), key=lambda item: -size[item[0]])
    kept: Rows = dict(ordered[:most])
    joined: Rows = {}
    _join(joined, (((OTHER, *names[1:]), row) for names, row in ordered[most:]))
    if len(joined) > most:
        others, joined = joined, {}
        _join(joined, (((OTHER, queue, OTHER), row) for (_, queue, _), row in others.items()))
    _join(kept, joined.items())
    return [*kept.items()]


class Counts(NamedTuple):
    """What was counted, by name and labels."""

    counters: Mapping[str, Mapping[Labels, float]]
    histograms: Mapping[str, Mapping[Labels, Histogram]]


class Tally:
    """What a process has seen since :meth:`begin`; before that, only the activity is counted.

    Names that begin with ``workspace_`` have a workspace as their first label, others a queue.
    Safe to call from any thread.
    """

    def __init__(self, workspaces: int) -> None:
        self.is_on = False
        self._lock = native_lock()
        self._busiest = Busiest(workspaces)
        self._counters: defaultdict[str, dict[Labels, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        self._histograms: defaultdict[str, dict[Labels, Histogram]] = defaultdict(dict)
        self._held: dict[int, tuple[Key, float]] = {}
        """Of each lease its workspace, queue and task, and the worker-seconds that were counted."""
        self._activity = Unsent()
        _tallies.add(self)

    def begin(self) -> None:
        """Count from now on, in this process: a forked child counts nothing."""
        self.is_on = True

    def end(self) -> None:
        """Count no more, in a forked child: another thread may have held the lock at the fork."""
        self.is_on, self._lock = False, native_lock()
        self._activity = Unsent()

    def read(self) -> Counts:
        """Return a copy of what was counted."""
        with self._lock:
            counters = {name: dict(counter) for name, counter in self._counters.items()}
            histograms = {
                name: {labels: Histogram([*h.counts], h.seconds) for labels, h in found.items()}
                for name, found in self._histograms.items()
            }
        return Counts(counters, histograms)

    def send_activity(self, send: Send | None, *, now: bool = False) -> None:
        """Send what has happened, if it is time, or ``now``.

        What cannot be sent is left out: these figures are for people, and no job waits for them.
        """
        if send is None:
            return
        with self._lock:
            found = [*self._activity.take(now=now)]
        for seconds, happened in found:
            try:
                send(seconds, happened)
            except Exception as error:  # noqa: BLE001 - the caller has leases
                _sending.failed("the activity of some seconds is lost: %s", error)

    # What is counted

    def counted(self, name: str, *labels: str, n: int = 1) -> None:
        """Something was done ``n`` times more."""
        if self.is_on and n:
            with self._lock:
                self._counters[name][labels] += n

    def outcomes(
        self,
        queues: Iterable[str],
        outcomes: Iterable[JobId | FairQueueError],
        send: Send | None = None,
    ) -> None:
        for queue, outcome in zip(queues, outcomes, strict=True):
            if isinstance(outcome, JobId):
                self.counted("jobs_published", queue, n=int(outcome.is_new))
            elif isinstance(outcome, CapacityExceeded):
                self.rejected(outcome, send)

    def rejected(self, error: CapacityExceeded, send: Send | None = None) -> None:
        with self._lock:
            self._activity.add(_of(error), "rejections")
            if self.is_on:
                self._counters["publishes_rejected"][error.queue, error.scope] += 1
                label = self._label(error.workspace)
                self._counters["workspace_publishes_rejected"][label,] += 1
        self.send_activity(send)

    def claimed(self, leases: Iterable[Lease], send: Send | None = None) -> None:
        """Jobs were leased, and start now."""
        with self._lock:
            for lease in leases:
                self._start(lease)
        self.send_activity(send)

    def worked(self, progress: Iterable[tuple[int, float]], send: Send | None = None) -> None:
        with self._lock:
            for fence, seconds in progress:
                if fence in self._held:
                    self._held[fence] = self._work(self._held[fence], seconds)
        self.send_activity(send)

    def _work(self, held: tuple[Key, float], seconds: float) -> tuple[Key, float]:
        job, before = held
        self._activity.add(job, "milliseconds", max(0, round((seconds - before) * 1000)))
        return job, max(seconds, before)

    def ended(self, fence: int, ending: str, seconds: float = 0.0) -> None:
        """A lease ended after these worker-seconds; ignored if its start was not seen."""
        with self._lock:
            held = self._held.pop(fence, None)
            if held is None:
                return
            job, _ = self._work(held, seconds)
            workspace, queue, _ = job
            if ending == "acked":
                self._activity.add(job, "ends")
            if not self.is_on:
                return
            self._counters["leases_ended"][queue, ending] += 1
            if ending == "suspended":
                self._counters[ending][queue,] += 1
            if seconds > 0:
                self._counters["worker_seconds"][queue,] += seconds
                self._counters["workspace_worker_seconds"][self._label(workspace),] += seconds

    def finished(self, finishes: Iterable[Finish], lost: Container[int]) -> None:
        """Leases have ended, unless they were lost; an early ack ends none."""
        for finish in finishes:
            if finish.ending is not Ending.ACK_EARLY:
                ending = "lost" if finish.fence in lost else finish.outcome
                self.ended(finish.fence, ending, finish.seconds)

    def ran(self, job: Job, outcome: str, seconds: float) -> None:
        """A framework says how a run ended, such as ``succeeded``, ``failed`` or ``retried``."""
        with self._lock:
            if outcome not in {"succeeded", "ignored"}:
                self._activity.add(_of(job), "failures")
            if self.is_on:
                self._counters["runs"][job.queue, outcome] += 1
                self._counters["workspace_runs"][self._label(job.workspace), outcome] += 1
                self._observe("run_seconds", (job.queue,), seconds)

    def steps(self, outcomes: Mapping[str, int]) -> None:
        """Steps of a task ran, were kept from an earlier run, or lost their lease."""
        for outcome, n in outcomes.items():
            self.counted("steps", outcome, n=n)

    # How

    def _start(self, lease: Lease) -> None:
        job = lease.job
        key = _of(job)
        self._held[lease.fence] = key, 0.0
        if len(self._held) > MOST_HELD:
            del self._held[next(iter(self._held))]
        self._activity.started(key, lease.waited_seconds)
        if not self.is_on:
            return
        label = self._label(job.workspace)
        self._counters["jobs_started"][job.queue,] += 1
        self._counters["workspace_jobs_started"][label,] += 1
        for name, seconds in (
            ("wait_seconds", lease.waited_seconds),
            ("runnable_wait_seconds", lease.runnable_seconds),
        ):
            if seconds is not None:
                self._observe(name, (job.queue,), seconds)
                self._observe(f"workspace_{name}", (label,), seconds)

    def _observe(self, name: str, labels: Labels, seconds: float) -> None:
        self._histograms[name].setdefault(labels, Histogram()).add(seconds)

    def _label(self, workspace: str) -> str:
        label, lost = self._busiest.label(workspace)
        if lost is not None:
            self._forget(lost)
        return label

    def _forget(self, workspace: str) -> None:
        """End a workspace's numbers; they begin at 0 if it comes back, as after a restart."""
        for by_name in (self._counters, self._histograms):
            for name, series in by_name.items():
                if name.startswith("workspace_"):
                    for labels in [labels for labels in series if labels[0] == workspace]:
                        del series[labels]


def _of(job: Job | CapacityExceeded) -> Key:
    return job.workspace, job.queue, job.task


_tallies = in_forked_children(Tally.end)
