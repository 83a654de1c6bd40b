"""The lists of a store, page by page: running and waiting jobs, queues, tasks, workers, pauses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice
from operator import attrgetter
from typing import Any, Literal, TypeVar

from fairqueue._activity import Happened
from fairqueue._keys import TYPES, decode, encode, encode_job
from fairqueue._lazy import explained, reports
from fairqueue._lazy import rows as values
from fairqueue._stores import limits_text, replies
from fairqueue._stores.later import explain, noted, row_readers
from fairqueue._stores.later import fleet as fleets
from fairqueue._stores.operators import OperatorStore
from fairqueue._types import App, WorkerRow
from fairqueue.messages import LISTED_BYTES

T = TypeVar("T")

PAGE = 100
LETTERS_AT_ONCE = 100
LEASES_AT_ONCE = 500  # they have no payload
ENTRIES_AT_ONCE = 500
NAMED = {
    "limits": r"\w+:(?:{scope}):(.+)",
    "shard": r"(?:{scope}):(.+)",
    "requests": r"[^/]*/([^/]*)/.*",
    "schedule_times": r"\S+ (\S+) \S+",
    **dict.fromkeys(("unique", "task_rates"), r"([^:@]+):.*"),
}
"""How an entry names what it is of; in other kinds it is a workspace, with letters behind ``!``."""
PARENT = re.compile(r"parent=(\S+)")
"""In the limits of a workspace: its group."""
ANY_BYTES = 2**40
FLOWS_AT_ONCE = 50  # of a ready set: each has lanes and limits
MOST_FLOWS = 500  # that one look at a queue counts one by one
SLOTS_AT_ONCE = 100  # leases: each has a workspace
MOST_SLOTS = 1000  # leases that stand for all where there are more
WINDOWS_AT_ONCE = 20
ROWS_AT_ONCE = 30  # of workspaces: each has lanes and limits


def _rank(rank: int) -> dict[str, int]:
    """Return the rank at which a call begins to look at a ready set."""
    return {"from": rank, "count": FLOWS_AT_ONCE}


def _by_name(rows: Mapping[str, T]) -> list[T]:
    return [rows[name] for name in sorted(rows)]


class ListStore(OperatorStore):
    """The lists. Each page is one short atomic step; a list is not."""

    def _pages(self, operation: str, **arguments: Any) -> Iterator[tuple[float, list[Any]]]:
        """Yield the time and the rows of each page."""
        cursor = b""
        while cursor != b"0":
            now, cursor, *rows = self._call(operation, cursor=cursor or b"0", **arguments)
            yield float(now), rows

    def running(
        self,
        n: int,
        *,
        workspace: str = "",
        queue: str = "",
        task: str = "",
        owners: Collection[str] = (),
        longer_than: float | None = None,
        arguments: bool = False,
    ) -> values.RunningJobs:
        """Return the ``n`` jobs that have run longest, and how many match all that is given.

        An empty name, or no owner, matches all of them. The worker of each is its owner, see
        :meth:`workers`. Their messages are read for their ``arguments`` only.
        """
        found: dict[int, values.RunningJob] = {}
        cursor, total, before = b"", 0, ""
        while cursor != b"0":
            now, cursor, matched, *rows = self._call(
                "running",
                workspace=encode(workspace),
                queue=encode(queue),
                task=encode(task),
                owners=" ".join(map(encode, owners)),
                longer_than="" if longer_than is None else longer_than,
                before=before,
                most=n,
                payloads=LISTED_BYTES * arguments,
                cursor=cursor or b"0",
                count=LEASES_AT_ONCE,
            )
            total += matched
            page = (row_readers.running(row, float(now)) for row in rows)
            found |= {job.fence: job for job in page}
            if len(found) >= n:
                found = {fence: found[fence] for fence in nsmallest(n, found)}
                before = str(max(found))
        return values.RunningJobs(
            tuple(found[fence] for fence in sorted(found)), max(total, len(found))
        )

    def held(self, by: Literal["owner", "task"]) -> Iterator[row_readers.Held]:
        """Count the leases of each page by owner or by task; a lease may come more than once."""
        for now, rows in self._pages("held", by=by, count=LEASES_AT_ONCE):
            yield from (row_readers.held(row, now) for row in rows)

    def waiting(
        self,
        queue: str = "",
        *,
        workspace: str = "",
        task: str = "",
        cursor: str = "",
        n: int = PAGE,
    ) -> values.JobPage:
        """Return a page of about ``n`` jobs, at most 100; those of a queue come in no order.

        Jobs that start between two pages may make the second page skip others of their lane.
        """
        now, following, *rows = self._call(
            "waiting",
            workspace=encode(workspace),
            queue=encode(queue),
            task=encode(task),
            payloads=LISTED_BYTES,
            cursor=cursor or b"0",
            count=min(n, PAGE),
        )
        jobs = {row: row_readers.waiting(row, float(now)) for row in rows}
        return values.JobPage(tuple(jobs.values()), "" if following == b"0" else following.decode())

    def queues(self) -> list[values.QueueRow]:
        """Return the queues by name."""
        pages = self._pages("queues", count=PAGE)
        found = (row_readers.queue(row, now) for now, rows in pages for row in rows)
        return _by_name({row.queue: row for row in found})

    def runnable(self, queue: str, *, most: int = MOST_FLOWS) -> values.Runnable:
        """Return what could run in a queue now, estimated from a sample of many flows."""
        name, parts = encode(queue), [self._call("runnable", queue=encode(queue), **_rank(0))]
        members = parts[0][0]
        pages = -(-members // FLOWS_AT_ONCE)
        for n in range(1, min(pages, most // FLOWS_AT_ONCE)):
            rank = n * FLOWS_AT_ONCE
            if members > most:
                rank = n * members * FLOWS_AT_ONCE // most
            parts.append(self._call("runnable", queue=name, **_rank(rank)))
        return row_readers.runnable(parts)

    def tasks(self) -> list[values.TaskRow]:
        """Return the tasks by name; how many of each run is not counted."""
        pages = self._pages("tasks", count=PAGE)
        found = (row_readers.task(row) for _, rows in pages for row in rows)
        return _by_name({row.task: row for row in found})

    def entries(self, kind: str) -> Iterator[tuple[float, dict[bytes, bytes]]]:
        """Yield pages of the hash or sorted set of this kind, of which there is one.

        Each is the time, and fields with their texts, or members with their scores.
        """
        how = {"kind": kind, "name": "", "structure": TYPES[kind], "count": ENTRIES_AT_ONCE}
        for now, found in self._pages("entries", **how):
            yield now, dict(zip(found[::2], found[1::2], strict=True))

    def workers(self) -> dict[str, WorkerRow]:
        """Return the owners that gave a sign of life, without what they run."""
        pages, found = [*self.entries("workers")], dict[str, WorkerRow]()
        apps = {name: text for _, page in pages for name, text in page.items() if name[:1] == b"#"}
        for now, page in pages:
            for row in replies.workers({**page, **apps}, now):
                known = found.setdefault(row.owner, row)
                found[row.owner] = min(known, row, key=attrgetter("silent_seconds"))
        return found

    def heartbeat(
        self,
        owner: str,
        worker: str,
        software: str,
        *,
        lease_seconds: float = 30.0,
        app: App | None = None,
        **told: Any,
    ) -> None:
        """Note that an owner of leases lives, and other fields of its :class:`WorkerRow`.

        Of its ``queues`` the first 4,000 bytes are kept. ``lease_seconds`` 0: it has stopped. Of
        ``app``, which it declares, a digest is sent, and the rest if that is not known here.
        """
        text = "" if app is None else replies.app_text(app)
        digest = text and blake2b(text.encode(), digest_size=8).hexdigest()
        told |= {"worker": worker, "software": software, "lease_seconds": lease_seconds}
        named = {"owner": encode(owner), "about": replies.about_owner(**told), "digest": digest}
        if not self._call("heartbeat", **named, app=""):
            self._call("heartbeat", **named, app=text)

    def why(
        self,
        *,
        workspace: str | None,
        job_id: str | None,
        queue: str | None,
        fleet: Callable[[], fleets.Fleet] | None = None,
    ) -> explained.Why:
        """Explain why a job waits or, without a job id, why a workspace's jobs do. Read only.

        Of a job, its workspace is given; it is unknown otherwise. Without a queue it is looked for
        on all of them, also by its framework's id.
        At most 10,000 jobs ahead in a lane are counted, and 1,000 leases looked at for when it may
        start. ``fleet`` gives the workers and leases, if not those of this store alone.
        """
        name = workspace or ""
        known_by = "" if job_id is None else encode_job(name, queue or "", job_id)
        reply = self._call("why", workspace=encode(name), id=known_by)
        known = (fleet or self.fleet)() if reply[5] else fleets.Fleet()
        return explain.why(reply, job_id, known)

    def fleet(self) -> fleets.Fleet:
        """Return what the workers have said they take, and the leases, or a part of them."""
        return fleets.fleet_of(self.workers().values(), *self.taken_slots())

    def taken_slots(self) -> tuple[list[fleets.TakenSlot], int]:
        """Return what the leases occupy, of 1,000 at most, and how many leases there are."""
        most = MOST_SLOTS // SLOTS_AT_ONCE
        pages = [rows for _, rows in islice(self._pages("taken_slots", count=SLOTS_AT_ONCE), most)]
        taken = dict(fleets.taken_slot(row) for _, *rows in pages for row in rows)
        return list(taken.values()), pages[-1][0]

    def pauses(self) -> list[values.PauseRow]:
        """Return what is paused or draining, the longest first."""
        pages = self._pages("pauses", count=PAGE)
        rows = {tuple(row[:2]): row_readers.pause(row, now) for now, page in pages for row in page}
        return sorted(rows.values(), key=lambda row: (row.since, row.scope, row.name))

    def names(self, place: str, scope: str) -> Iterator[list[str]]:
        """Yield pages of the names of a scope that stand in one place, such as ``workspaces``."""
        of = "queue|kind" if scope == "queue" else scope
        form = re.compile(NAMED.get(place, "!*([^!#].*)").format(scope=of))
        for _, page in self.entries(place):
            found = {field: form.fullmatch(field.decode()) for field in page}
            names = [match[1] for match in found.values() if match]
            if place == "limits":
                texts = (page[field].decode() for field, match in found.items() if match)
                names += PARENT.findall(" ".join(texts))
            yield list(map(decode, names))

    def stored_limits(self) -> list[values.StoredLimitsRow]:
        """Return all limits that are stored, of every source, in no order."""
        limits, stamps = (
            {field: text for _, page in self.entries(kind) for field, text in page.items()}
            for kind in ("limits", "stored_by")
        )
        rows = (
            limits_text.named(field, text, stamps.get(field, b"")) for field, text in limits.items()
        )
        return [row for row in rows if row is not None]

    def snapshot(self, names: Sequence[str] = ()) -> list[values.WorkspaceStats]:
        """Count the jobs of each workspace, or of these: waiting, scheduled, running, dead."""
        known = [*map(encode, names)] or [*self._known_workspaces()]
        rows = []
        for first in range(0, len(known), ROWS_AT_ONCE):
            rows += self._call("snapshot", names=" ".join(known[first : first + ROWS_AT_ONCE]))
        return sorted(map(row_readers.workspace_stats, rows), key=attrgetter("workspace"))

    def _known_workspaces(self) -> set[str]:
        """Every workspace of which anything is known, encoded."""
        places = "workspaces", "dead_workspaces", "counts"
        pages = (page for place in places for _, page in self.entries(place))
        return {name.decode() for page in pages for name in page if name[:1] != b"!"}

    def add_activity(self, seconds: int, happened: Happened) -> None:
        """Add what a process has seen happen to jobs, in a minute or an hour, given in seconds."""
        rows = [noted.happened_text(*row) for row in happened]
        for first in range(0, len(rows), ROWS_AT_ONCE):
            self._call(
                "add_activity", seconds=seconds, rows=b"".join(rows[first : first + ROWS_AT_ONCE])
            )

    def activity(self, seconds: int, n: int) -> Iterator[tuple[float, Happened]]:
        """Yield what happened in the last ``n`` windows of a minute or an hour.

        With when each began, the oldest first. Pages overlap, since time goes on between them.
        """
        read = set[int]()
        for back in range(n - 1, -1, 1 - WINDOWS_AT_ONCE):
            page = self._call("activity", seconds=seconds, back=back, count=WINDOWS_AT_ONCE)
            for number, rows in page:
                if (window := int(number)) in read:
                    continue
                read.add(window)
                yield window * seconds, noted.read_happened(rows)

    def note_lines(self, what: str, lines: Sequence[str], count: int) -> None:
        """Add ``jobs`` that have ended, or ``acts``, as JSON, to the last ones; ``count`` stay."""
        self._call("note_lines", what=what, lines="\n".join(lines), count=count)

    def noted_lines(self, what: str, start: int, count: int) -> list[bytes]:
        """Return a page of the last ``jobs`` that have ended, or ``acts``, the newest first."""
        lines: list[bytes] = self._call("noted_lines", what=what, start=start, count=count)
        return lines

    def without_workspace(self) -> dict[str, reports.WithoutWorkspace]:
        """Count the jobs that were published without a workspace, by task."""
        return replies.without_workspace(self._call("without_workspace"))

    def set_aside(self) -> dict[str, int]:
        """Count by kind what claims passed because they could not read it."""
        found = self._call("set_aside")
        return {kind.decode(): int(n) for kind, n in zip(found[::2], found[1::2], strict=True)}

    def drop_set_aside(self) -> int:
        """Forget what was set aside; return how many records were kept."""
        return int(self._call("drop_set_aside"))

    def sample(self, queue: str, n: int, *, by: str = "workspace") -> Counter[str]:
        """Count the workspaces, or the tasks, of ``n`` jobs of a queue, chosen at random."""
        counted: Counter[str] = Counter()
        for first in range(0, n, PAGE):
            found = self._call("sample", queue=encode(queue), by=by, count=min(PAGE, n - first))
            counted.update(map(decode, found))
        return counted

    def choose_dead(
        self, choice: values.DeadFilter, *, payloads: int = 0, cursor: str = ""
    ) -> Iterator[row_readers.LetterAt]:
        """Yield the matching dead letters by workspace, the oldest first, from a place on.

        They have payloads of up to ``payloads`` bytes. Each step looks at a bounded number of
        letters; behind its letters it yields only how far it has looked. While they are given,
        others may come.
        """
        named: dict[str, Any] = {
            "workspace": encode(choice.workspace),
            "id": encode(choice.job_id),
            "queue": encode(choice.queue),
            "task": encode(choice.task),
            "reason": encode(choice.reason),
            "text": choice.text,
            "error": encode(choice.error),
            "since": choice.since,
            "until_then": "+inf" if choice.until == float("inf") else choice.until,
            "payloads": payloads,
            "count": LETTERS_AT_ONCE,
        }
        is_over = False
        while not is_over:
            place, *found = self._call("choose_dead", cursor=cursor, **named)
            for at, job_id, letter in zip(found[::3], found[1::3], found[2::3], strict=True):
                yield row_readers.LetterAt(at.decode(), replies.dead_letter(job_id, letter))
            cursor, is_over = place.decode(), not place
            if not is_over:
                yield row_readers.LetterAt(cursor)

    def dead_letters(
        self, workspace: str, *, job_id: str = "", start: int = 0, count: int = 100
    ) -> list[reports.DeadLetter]:
        """Return a page of a workspace's dead letters, oldest first, or those with this id."""
        chosen = values.DeadFilter(workspace, job_id)
        places = self.choose_dead(chosen, payloads=ANY_BYTES)
        return list(islice((one.letter for one in places if one.letter), start, start + count))
