"""Reads the rows of lists in the scripts' replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from fairqueue._keys import decode, decode_job, encode
from fairqueue._stores.limits_text import stamp_in
from fairqueue._stores.replies import FENCES_PER_SECOND, counts
from fairqueue._types import App, DeadLetter, JobProgress, Pause
from fairqueue.messages import in_a_list
from fairqueue.rows import (
    PauseRow,
    QueueRow,
    Runnable,
    RunningJob,
    TaskRow,
    WaitingJob,
    WorkerRow,
    WorkspaceStats,
)

MOST_TASKS_BYTES = 65_536
"""An app whose names are longer does not tell its tasks."""
MOST_TAKES_BYTES = 4000
"""How much of an owner's queue names is kept."""


@dataclass(frozen=True, slots=True)
class LetterAt:
    """A dead letter, and its place in the list."""

    place: str
    letter: DeadLetter | None = None
    """None: it was looked up to here."""

    @property
    def order(self) -> tuple[float, str, float, str]:
        """Sort key: by workspace, the one with the oldest letter first."""
        oldest, workspace, died, job_id = self.place.split(" ")
        return float(oldest), workspace, float(died), job_id


class Held(NamedTuple):
    """The number of leases of an owner or a task."""

    name: str
    n: int
    seen: float
    """When one of them was last granted or renewed."""
    silent_seconds: float


def _number(word: bytes) -> float | None:
    return None if word == b"-" else float(word)


def _whole(word: bytes) -> int | None:
    return None if word == b"-" else int(float(word))


def _pause(paused: bytes, draining: bytes) -> Pause | None:
    if paused != b"-":
        return Pause.PAUSED
    return None if draining == b"-" else Pause.DRAINING


def _job(words: Sequence[bytes], payload: bytes) -> dict[str, Any]:
    queue, job_id, workspace, task, priority = words
    return {
        "job_id": decode_job(job_id),
        "task": decode(task),
        "workspace": decode(workspace),
        "queue": decode(queue),
        "priority": int(priority),
        **in_a_list(payload),
    }


def running(row: bytes, now: float) -> RunningJob:
    head, _, payload = row.partition(b"\n")
    fence, *words = head.split(b" ")
    claimed, owner, deliveries, early, cancelled, length, ends, *reported = words[5:]
    return RunningJob(
        **_job(words[:5], payload),
        worker=decode(owner),
        owner=decode(owner),
        fence=int(fence),
        since=float(claimed),
        seconds=max(0.0, now - float(claimed)),
        deliveries=int(deliveries),
        lease_seconds=float(length),
        lease_seconds_left=float(ends) - now,
        acked_early=early == b"1",
        cancelled=cancelled == b"1",
        progress=progress(b" ".join(reported), now),
    )


def progress(text: bytes | None, now: float) -> JobProgress | None:
    """Read what a job has reported; None: nothing, or it cannot be read."""
    try:
        current, total, message, at = (text or b"").split(b" ")
        age = max(0.0, now - float(at))
        return JobProgress(float(current), _number(total), decode(message), age)
    except ValueError:
        return None


def held(row: bytes, now: float) -> Held:
    """Read how many leases an owner holds, or there are of a task."""
    of, n, seen = row.split(b" ")
    return Held(decode(of), int(n), float(seen), max(0.0, now - float(seen)))


def waiting(row: bytes, now: float) -> WaitingJob:
    head, _, payload = row.partition(b"\n")
    *job, deliveries, published, expires, due = head.split(b" ")
    return WaitingJob(
        **_job(job, payload),
        deliveries=int(deliveries),
        published=float(published),
        seconds=max(0.0, now - float(published)),
        due=_number(due),
        expires=_number(expires),
    )


def queue(row: bytes, now: float) -> QueueRow:
    """Read one queue; the fence of its last dispatch tells the time in microseconds."""
    name, waiting, running, runnable, fence, concurrency, capacity, *pause = row.split(b" ")
    last = int(fence) / FENCES_PER_SECOND or None
    return QueueRow(
        queue=decode(name),
        waiting=int(waiting),
        running=int(running),
        runnable=int(runnable),
        last_start=last,
        idle_seconds=None if last is None else max(0.0, now - last),
        concurrency=_whole(concurrency),
        capacity=_whole(capacity),
        pause=_pause(*pause),
    )


def runnable(parts: Sequence[Sequence[Any]]) -> Runnable:
    """Add up what could run in the looked-at parts of a ready set, scaled to the whole."""
    members, room = parts[-1][0], parts[-1][6]
    looked, jobs, startable = (sum(float(part[n]) for part in parts) for n in (1, 3, 4))
    times = max(1.0, members / looked) if looked else 0.0
    most = float(room) if room else float("inf")
    waits = [float(part[5]) for part in parts if part[5]]
    return Runnable(
        jobs=round(jobs * times),
        startable=round(min(startable * times, most)),
        oldest_seconds=max(waits, default=None),
        is_complete=looked >= members and all(part[2] for part in parts),
    )


def task(row: bytes) -> TaskRow:
    name, average, concurrency, workspace_concurrency, *starts = row.split(b" ")
    rate, burst, workspace_rate, workspace_burst, *pause = starts
    return TaskRow(
        task=decode(name),
        running=0,
        average_seconds=_number(average),
        concurrency=_whole(concurrency),
        workspace_concurrency=_whole(workspace_concurrency),
        rate=_number(rate),
        burst=_number(burst),
        workspace_rate=_number(workspace_rate),
        workspace_burst=_number(workspace_burst),
        pause=_pause(*pause),
    )


def about(
    names: Sequence[str],
    queues: Sequence[str] | None,
    slots: int | None,
    lease_seconds: float,
    digests: str,
) -> str:
    """Write an owner's node and software, and its queues, as many as there is room for."""
    taken = [encode(queue) for queue in queues or ()]
    ends = accumulate(len(name) + 1 for name in taken)
    kept = sum(end <= MOST_TAKES_BYTES for end in ends)
    more = "-" if queues is None else str(len(taken) - kept)
    words = [f"{lease_seconds:g}", digests, "-" if slots is None else str(slots), more]
    return " ".join([*(encode(name) or "-" for name in names), *words, *taken[:kept]])


def workers(texts: Mapping[bytes, bytes], now: float) -> list[WorkerRow]:
    """Read owners, each with what its app has declared."""
    apps = {name[1:]: _app(text) for name, text in texts.items() if name.startswith(b"#")}
    owners = ((name, text) for name, text in texts.items() if not name.startswith(b"#"))
    return [_worker(decode(owner), text.split(b" "), apps, now) for owner, text in owners]


def _worker(owner: str, words: Sequence[bytes], apps: Mapping[bytes, App], now: float) -> WorkerRow:
    seen, node, software, lease, limits, slots, more, *queues = words
    limits, _, digest = limits.partition(b"/")
    app = apps.get(digest, App())
    return WorkerRow(
        worker=owner if node == b"-" else decode(node),
        owner=owner,
        software="" if software == b"-" else decode(software),
        last_seen=float(seen),
        silent_seconds=max(0.0, now - float(seen)),
        running=0,
        slots=_whole(slots),
        queues=None if more == b"-" else tuple(map(decode, queues)),
        more_queues=_whole(more) or 0,
        lease_seconds=_number(lease),
        limits="" if limits == b"-" else limits.decode(),
        app=app.name,
        tasks=app.tasks,
    )


def app_text(app: App) -> str:
    names = " ".join(map(encode, sorted(app.tasks or ())))
    tells = app.tasks is not None and len(names) <= MOST_TASKS_BYTES
    return f"{encode(app.name) or '-'}\n{names if tells else '*'}"


def _app(text: bytes) -> App:
    name, _, tasks = text.partition(b"\n")
    known = None if tasks == b"*" else tuple(map(decode, tasks.split()))
    return App("" if name == b"-" else decode(name), known)


def pause(row: Sequence[bytes], now: float) -> PauseRow:
    scope, name, how, since, waiting, stamp = row
    known = stamp_in(stamp.decode())
    return PauseRow(
        scope=scope.decode(),
        name=decode(name),
        state=Pause(how.decode()),
        since=float(since),
        seconds=max(0.0, now - float(since)),
        waiting=int(waiting) if waiting != b"" else None,
        stored_by=known and known[1],
    )


def workspace_stats(row: Sequence[Any]) -> WorkspaceStats:
    name, waiting, scheduled, running, limit, oldest, dead, seen, pause, weight = row
    counted = counts(seen)
    return WorkspaceStats(
        workspace=decode(name),
        waiting=int(waiting),
        scheduled=int(scheduled),
        running=int(running),
        limit=int(float(limit)) if limit else None,
        oldest_wait_seconds=float(oldest) if oldest else None,
        dead=int(dead),
        lost=counted.get("lost", 0),
        would_block=counted.get("starts", 0),
        would_reject=counted.get("publishes", 0),
        pause=Pause(pause.decode()) if pause else None,
        weight=float(weight),
    )
