"""Lists, counts and reasons: ``queue.views``."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fairqueue._reports import SentChild, WithoutWorkspace
from fairqueue._settings import Settings
from fairqueue._stores.engine import Engine
from fairqueue._stores.lists import MOST_FLOWS
from fairqueue._stores.row_readers import Held
from fairqueue._stores.store import StoreBase
from fairqueue._types import JobState, Scope
from fairqueue._validation import check_name, check_text, name_or_none
from fairqueue.errors import ConfigurationError, StoreUnavailable
from fairqueue.explained import STEPS_SHOWN, Why
from fairqueue.operate.blocked_waits import blocked_waits
from fairqueue.operate.jobs import locate
from fairqueue.operate.registry import living, unknown, unknown_jobs
from fairqueue.operate.unseen_names import hint_of_name
from fairqueue.rows import (
    BlockedWait,
    Demand,
    Durability,
    JobPage,
    Memory,
    Overview,
    QueueRow,
    Runnable,
    RunningJobs,
    Stats,
    TaskRow,
    Totals,
    WaitingJob,
    WorkerRow,
)

ALL_UP_TO = 1000
"""Workspaces that an overview looks at one by one; of more it shows those with the most jobs."""
SAMPLED = 1000
"""Jobs, to find those workspaces: one with 1 % of them is missed once in 20,000 looks."""
MOST_DEMANDS = 100  # queues whose ready sets ``demand`` looks at
FEWEST_FLOWS, FLOWS_OF_ALL = 50, 1000  # workspaces in line that looks at many queues count
MOST_STUCK = 10_000  # running jobs whose progress one call looks at
MOST_PAGES = 50  # pages of the store that one call reads for a page of waiting jobs
CURSOR = re.compile(r"(\d{1,9}:)?(\d{1,20}/\S*)?", re.ASCII)  # of waiting jobs of all workspaces
_OF_TASKS = struct.Struct("<dd")  # the sum of their seconds, and their count
DEATHS = ("max_deliveries", "expired", "rejected")
TICKS = ("published", "skipped", "missed", "full")


def _checked(**names: str | None) -> dict[str, str]:
    """Return the given names, checked, and an empty text for the others."""
    return {kind: "" if name is None else check_name(kind, name) for kind, name in names.items()}


def _nodes(store: StoreBase) -> dict[str, str]:
    """Return the name of each owner's node."""
    return {owner: row.worker for owner, row in store.workers().items()}


class Views:
    """Lists, counts and reasons. They change nothing, and no page of them blocks the store.

    Rows are those of :mod:`fairqueue.rows`. While jobs come and go, each page of a list is a
    picture of its own moment.
    """

    def __init__(self, connected: Callable[[], StoreBase], settings: Settings) -> None:
        self._connected, self._settings = connected, settings

    def why(
        self, job_id: str | None = None, *, workspace: str | None = None, queue: str | None = None
    ) -> Why:
        """Explain why a job waits, by its id or its framework's, or why a workspace's jobs do.

        The answer names every limit, pause, rate or time that blocks it, since when and until when
        (if known), how many jobs are ahead, and in how many seconds it is expected to start. The
        cost does not grow with the number of workspaces, unless a job is named by its id alone:
        then all are searched, in bounded steps. Two bounds apply: at most 10,000 jobs ahead in a
        lane are counted, and a dead job is searched for in the given workspace, else in the 1,000
        with the oldest dead letters. ConfigurationError: the id is used in several workspaces, or
        on several queues.
        """
        if job_id is None and workspace is None:
            raise ConfigurationError("why needs a job id or a workspace")
        store = self._connected()
        workspace, queue = name_or_none("workspace", workspace), name_or_none("queue", queue)
        if job_id is not None:
            job_id = check_text("job id", job_id)
            job = locate(store, job_id, workspace=workspace, queue=queue)
            workspace, queue, job_id = job or (workspace, None, job_id)
        found = store.why(workspace=workspace, job_id=job_id, queue=queue)
        if found.job and found.state in {JobState.WAITING, JobState.SCHEDULED}:
            lacking = unknown(living(store), found.job.queue, found.job.task)
            found = replace(found, unknown_task=lacking)
        if found.job and found.job.children:
            sent = found.job.children
            shown = *map(self._with_owner, sent[:STEPS_SHOWN]), *sent[STEPS_SHOWN:]
            found = replace(found, job=replace(found.job, children=shown))
        known = found.job
        if known and (known.starts or known.children or found.state is JobState.RUNNING):
            owners = {found.detail, *(start.owner for start in known.starts)}
            owners.update(child.owner for child in known.children)
            with suppress(StoreUnavailable):  # of another shard: the owners stay
                nodes = {owner: node for owner, node in _nodes(store).items() if owner in owners}
                found = replace(found, nodes=nodes)
        if found.running:
            found = replace(found, waits=tuple(self._waits_of(found)))
        if found.workspace != self._settings.default_workspace:
            return found
        return replace(found, without_workspace=self._without_workspace(found))

    def _with_owner(self, child: SentChild) -> SentChild:
        """Say which owner runs it."""
        store, queue = self._connected(), child.queue or None
        found = store.why(workspace=child.workspace, job_id=child.id, queue=queue)
        if found.state is not JobState.RUNNING:
            return child
        return replace(child, owner=found.detail or "", seconds=found.now - (found.since or 0))

    def unknown_tasks(self) -> Mapping[str, int]:
        """Return the tasks with jobs that no living worker of their queue knows, and how many.

        The jobs are counted by a sample of each of the 20 fullest queues.
        """
        store = self._connected()
        return unknown_jobs(store, self.queues(), living(store))

    def _waits_of(self, found: Why) -> Iterator[str]:
        """What is known of the job, or of the workspace's jobs."""
        for wait in self.blocked_waits():
            is_of_job = found.job_id in {None, wait.job_id, wait.child_id}
            if wait.workspace == found.workspace and is_of_job:
                yield wait.text

    def blocked_waits(self) -> list[BlockedWait]:
        """Return running jobs that wait for the result of a job that has no free slot."""
        return blocked_waits(self._connected())

    def _without_workspace(self, found: Why) -> Mapping[str, WithoutWorkspace]:
        """Return the counts of these tasks, else of all tasks."""
        counts = self._connected().without_workspace()
        tasks = {position.task for position in found.positions} if found.job_id else counts.keys()
        return {task: counts[task] for task in sorted(tasks & counts.keys())}

    def hint(self, *scopes: Scope) -> str | None:
        """Return a hint if no job, limit or pause names one of these now, with a similar name.

        Also for a known name if another differs only in case or surrounding spaces. None: all are
        known, and there is no such other.
        """
        store = self._connected()
        return next(filter(None, (hint_of_name(store, scope) for scope in scopes)), None)

    def stats(self) -> Stats:
        """Return how many jobs wait, run and are dead, per workspace and queue.

        The cost grows with the number of workspaces; that of :meth:`overview` does not.
        """
        store = self._connected()
        queues = {row.queue: row.waiting for row in self.queues()}
        rows = tuple(store.snapshot())
        return Stats(rows, queues, store.without_workspace(), store.set_aside())

    def overview(
        self,
        *,
        workspaces: Sequence[str] = (),
        top: int | None = None,
        everything: bool = False,
    ) -> Overview:
        """Return the workspaces with the most waiting jobs, the queues, and what is paused.

        Up to 1,000 workspaces are all read. Of more, those with the most jobs are found by a sample
        of 1,000 jobs, so the cost does not grow; their numbers are exact. ``top`` is the most that
        are returned (of more than 1,000: 50, and the paused ones); ``workspaces`` names those to
        return, and ``everything`` reads all.
        """
        names = [check_name("workspace", name) for name in workspaces]
        store = self._connected()
        queues, pauses = self.queues(), store.pauses()
        known = sum(_known_of(shard.engine) for shard in store.shards)
        is_whole = not names and (everything or known <= ALL_UP_TO)
        paused = [] if top else [pause.name for pause in pauses if pause.scope == "workspace"]
        if not (names or is_whole):
            top = top or 50
            names = _busiest(store, queues, top) + paused
        found = store.snapshot() if is_whole else store.snapshot(list(dict.fromkeys(names)))
        rows = sorted(found, key=lambda row: (-row.waiting, -row.running, row.workspace))
        shown = rows if workspaces else rows[:top]
        shown = shown + [row for row in rows[len(shown) :] if row.workspace in paused]
        return Overview(
            workspaces=tuple(shown),
            queues=tuple(queues),
            pauses=tuple(pauses),
            observing=_observes(store),
            known_workspaces=len(rows) if is_whole else known,
            is_complete=is_whole and len(shown) == len(rows),
            running=sum(queue.running for queue in queues),
            queued=sum(queue.waiting for queue in queues),
            without_workspace=store.without_workspace(),
            set_aside=store.set_aside(),
        )

    def running(
        self,
        *,
        workspace: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        worker: str | None = None,
        longer_than: float = 0.0,
        stuck: float | None = None,
        n: int = 100,
        arguments: bool = False,
    ) -> RunningJobs:
        """Return the ``n`` running jobs that have run longest and match all that is given.

        ``worker`` is the name of a node or an owner, ``longer_than`` in seconds. Given a workspace,
        else a queue, the jobs of others are not looked at. ``stuck``: of the 10,000 longest, those
        whose progress has been the same for at least this long. ``arguments``: read also the
        framework's id and the first arguments of each.
        """
        asked: dict[str, Any] = _checked(workspace=workspace, queue=queue, task=task)
        store = self._connected()
        nodes = _nodes(store)
        if worker is not None:
            owners = [owner for owner, node in nodes.items() if worker in {owner, node}]
            asked["owners"] = owners or [worker]
        asked |= {"longer_than": longer_than or None, "arguments": arguments}
        found = store.running(n if stuck is None else MOST_STUCK, **asked)
        if stuck is not None:
            kept = [job for job in found.jobs if job.progress and job.progress.seconds >= stuck]
            found = RunningJobs(tuple(kept[:n]), len(kept))
        jobs = (replace(job, worker=nodes.get(job.owner, job.owner)) for job in found.jobs)
        return RunningJobs(tuple(jobs), found.total)

    def waiting(
        self,
        *,
        workspace: str | None = None,
        queue: str | None = None,
        task: str | None = None,
        longer_than: float = 0.0,
        cursor: str = "",
        n: int = 100,
    ) -> JobPage:
        """Return a page of about ``n`` jobs that wait or are scheduled and match all that is given.

        Those of a workspace come lane by lane in the order in which they will start; others in no
        order. ``longer_than``: seconds since their publish. A page may be short, or empty, if few
        jobs match: pass its ``cursor`` to the next call unless that is empty. ConfigurationError: a
        cursor that no call returned.
        """
        where = _checked(workspace=workspace, queue=queue, task=task)
        store = self._connected()
        if cursor and not (where["workspace"] or CURSOR.fullmatch(cursor)):
            raise ConfigurationError(f"{cursor!r} is not a cursor of this list: begin without one")
        found, pages = dict[tuple[str, str, str], WaitingJob](), 0
        while len(found) < n and pages < MOST_PAGES and (cursor or not pages):
            page = store.waiting(**where, cursor=cursor, n=n)
            rows = (job for job in page.jobs if job.seconds >= longer_than)
            found |= {(job.workspace, job.queue, job.job_id): job for job in rows}
            cursor, pages = page.cursor, pages + 1
        return JobPage(tuple(found.values()), cursor)

    def queues(self) -> list[QueueRow]:
        """Return all queues by name."""
        return self._connected().queues()

    def runnable(self, queue: str, *, of_queues: int = 1) -> Runnable:
        """Return how many jobs of a queue could run now, and for how long the oldest could.

        ``running`` jobs and its ``startable`` ones together are the worker slots that the queue
        can use. The cost grows with the number of workspaces in line up to 500 of them, or
        fewer where it is asked for many queues in turn, ``of_queues``.
        """
        most = max(FEWEST_FLOWS, min(MOST_FLOWS, FLOWS_OF_ALL // of_queues))
        return self._connected().runnable(check_name("queue", queue), most=most)

    def demand(self, rows: Sequence[QueueRow] | None = None) -> dict[str, Demand]:
        """Return for each queue the worker slots that it could use, and those that it has.

        Of more than 100 queues, or ``rows``, for those with the most jobs.
        """
        rows, workers = self.queues() if rows is None else rows, self.workers()
        shown = sorted(rows, key=lambda row: (-row.waiting - row.running, row.queue))[:MOST_DEMANDS]
        busy = [row.queue for row in shown if row.runnable]
        found = {name: self.runnable(name, of_queues=len(busy)) for name in busy}
        return {row.queue: demand_of(row, workers, found.get(row.queue)) for row in shown}

    def memory(self) -> Memory | None:
        """Return the server's memory; None: it does not tell, or is ``memory://``.

        Of several servers, that of the nearest to its ``maxmemory``, the first to refuse publishes;
        if none has that set, of the one that uses most.
        """
        found = (shard.engine.memory() for shard in self._connected().shards)
        return max(
            (each for each in found if each is not None),
            key=lambda of: (of.used_bytes / (of.max_bytes or math.inf), of.used_bytes),
            default=None,
        )

    def durability(self) -> Durability | None:
        """Return whether the server keeps jobs; None: it does not tell, or is ``memory://``.

        Of several servers the worst: whether any drops jobs, and whether all have an append-only
        file.
        """
        found = (shard.engine.durability() for shard in self._connected().shards)
        known = [each for each in found if each is not None]
        worst = max(known, key=lambda each: each.evicts_jobs, default=None)
        return worst and replace(worst, appends=all(each.appends for each in known))

    def totals(self) -> Totals:
        """Return how many jobs were acked and died, and leases expired, since the store began.

        A damaged count is 0.
        """
        found = Counter[str]()
        for shard in self._connected().shards:
            found.update(_totals(shard.engine))
        return Totals(
            acked=found["acked"],
            worker_seconds=found["micros"] / 1e6,
            leases_expired=found["leases_expired"],
            dead={why: found[f"dead_{why}"] for why in DEATHS},
            ticks={how: n for how in TICKS if (n := found[f"ticks_{how}"])},
            schedules=found["schedules"],
        )

    def tasks(self) -> list[TaskRow]:
        """Return all tasks by name. How many of each run is counted, lease by lease."""
        store, running = self._connected(), Counter[str]()
        for held in store.held("task"):
            running[held.name] += held.n
        workers = living(store)
        lacking = unknown_jobs(store, self.queues(), workers)
        workers = [row for row in workers if row.tasks is not None]
        known = Counter(task for row in workers for task in row.tasks or ())
        return [
            replace(
                row,
                running=running[row.task],
                workers=known[row.task] if workers else None,
                all_workers=len(workers),
                unknown_jobs=lacking.get(row.task),
            )
            for row in store.tasks()
        ]

    def workers(self, *, gone: bool = False) -> list[WorkerRow]:
        """Return the owners of leases by name: those that live, or with ``gone`` all of a day.

        The last sign of life is a claim, to within half a minute, or a renewal. An owner that runs
        a release before this one is known only while it holds leases.
        """
        store = self._connected()
        rows = store.workers()
        for held in store.held("owner"):
            rows[held.name] = _seen_with(rows.get(held.name), held)
        alive = (row for row in rows.values() if gone or row.is_alive)
        return sorted(alive, key=lambda row: (row.worker, row.owner))


def demand_of(row: QueueRow, workers: Sequence[WorkerRow], found: Runnable | None) -> Demand:
    """Return the worker slots that a queue could use, and those that these workers have for it."""
    startable = found.startable if found else 0
    slots = [worker.slots for worker in workers if worker.takes(row.queue)]
    known = [n for n in slots if n is not None]
    says = len(known) == len(slots) and all(worker.names_all_queues for worker in workers)
    return Demand(startable, row.slots_wanted(startable), sum(known) if says else None)


def _totals(engine: Engine) -> dict[str, int]:
    """Read one shard's counts."""
    found = engine.command("HGET", engine.keys.key("shard"), "tasks")
    can_be_read = len(found or b"") == _OF_TASKS.size
    micros, acked = _OF_TASKS.unpack(found) if can_be_read else (0, 0)
    names = [
        "leases_expired",
        *(f"dead_{why}" for why in DEATHS),
        *(f"ticks_{how}" for how in TICKS),
    ]
    counts = engine.command("HMGET", engine.keys.key("shard"), *names)
    schedules = engine.command("ZCARD", engine.keys.key("schedule_times"))
    told = {name: int(n) for name, n in zip(names, counts, strict=True) if (n or b"").isdigit()}
    return {**told, "micros": int(micros), "acked": int(acked), "schedules": schedules}


def _known_of(engine: Engine) -> int:
    """Count a shard's workspaces approximately: some may be counted more than once."""
    keys, command = engine.keys, engine.command
    counts = [command("HLEN", keys.key(kind)) for kind in ("workspaces", "counts")]
    return int(sum(counts) + command("ZCARD", keys.key("dead_workspaces")))


def _observes(store: StoreBase) -> bool:
    """Whether limits are observed; one shard is asked, since all have the same configuration."""
    engine = store.shards[0].engine
    return bool(engine.command("HEXISTS", engine.keys.key("limits"), "configured:observe:"))


def _busiest(store: StoreBase, queues: Sequence[QueueRow], n: int) -> list[str]:
    """Return the workspaces with the most jobs, by a sample of these queues."""
    jobs = {row.queue: row.waiting + row.running for row in queues if row.waiting + row.running}
    of_all, counted = sum(jobs.values()), Counter[str]()
    for queue, of_queue in jobs.items():
        share = max(1, SAMPLED * of_queue // of_all)
        counted.update(store.sample(queue, min(share, of_queue)))
    return [name for name, _ in counted.most_common(2 * n)]


def _seen_with(row: WorkerRow | None, held: Held) -> WorkerRow:
    """Count more leases, whose last renewal is a sign of life."""
    row = row or WorkerRow(held.name, held.name, "", held.seen, held.silent_seconds, 0)
    seen = max(row.last_seen, held.seen)
    silent = min(row.silent_seconds, held.silent_seconds)
    return replace(row, running=row.running + held.n, last_seen=seen, silent_seconds=silent)
