"""Reads the rows of lists in the scripts' replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairqueue._keys import decode, decode_job
from fairqueue._reports import DeadLetter, JobProgress
from fairqueue._stores.limits_text import stamp_in
from fairqueue._stores.replies import FENCES_PER_SECOND, counts
from fairqueue._types import Pause
from fairqueue.messages import in_a_list
from fairqueue.rows import (
    PauseRow,
    QueueRow,
    Runnable,
    RunningJob,
    TaskRow,
    WaitingJob,
    WorkspaceStats,
)


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
    return None if word in NONE else float(word)


NONE = {b"", b"-"}
READERS: dict[str, Callable[[Any], Any]] = {
    "str": decode,
    "str | None": lambda word: None if word in NONE else decode(word),
    "int": int,
    "float": float,
    "bool": b"1".__eq__,
    "int | None": lambda word: None if word in NONE else int(float(word)),
    "float | None": _number,
    "Pause": lambda word: Pause(word.decode()),
    "Pause | None": lambda word: None if word in NONE else Pause(word.decode()),
}
"""How a word of a reply is read, by the type of its field."""
OF_NAME = {"job_id": decode_job}


def read(row: type, names: str, words: Iterable[Any]) -> dict[str, Any]:
    """Read the named fields of a row, one from each word; more words may follow."""
    types = row.__annotations__
    pairs = zip(names.split(), words, strict=False)
    return {name: (OF_NAME.get(name) or READERS[types[name]])(word) for name, word in pairs}


def _job(row: type, names: str, text: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Read a job and its payload; also return all words of the head."""
    head, _, payload = text.partition(b"\n")
    words = head.split(b" ")
    return read(row, names, words) | in_a_list(payload), words


def running(row: bytes, now: float) -> RunningJob:
    names = (
        "fence queue job_id workspace task priority since owner deliveries acked_early cancelled "
        "lease_seconds"
    )
    job, words = _job(RunningJob, names, row)
    ends, *reported = words[len(names.split()) :]
    return RunningJob(
        **job,
        worker=job["owner"],
        seconds=max(0.0, now - job["since"]),
        lease_seconds_left=float(ends) - now,
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
    names = "queue job_id workspace task priority deliveries published expires due"
    job, _ = _job(WaitingJob, names, row)
    return WaitingJob(**job, seconds=max(0.0, now - job["published"]))


def queue(row: bytes, now: float) -> QueueRow:
    """Read one queue; the fence of its last dispatch tells the time in microseconds."""
    *words, fence = row.split(b" ")
    names = "queue waiting running runnable concurrency capacity pause"
    last = int(fence) / FENCES_PER_SECOND or None
    idle = None if last is None else max(0.0, now - last)
    return QueueRow(**read(QueueRow, names, words), last_start=last, idle_seconds=idle)


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
    names = (
        "task average_seconds concurrency workspace_concurrency rate burst workspace_rate "
        "workspace_burst pause"
    )
    return TaskRow(**read(TaskRow, names, row.split(b" ")), running=0)


def pause(row: Sequence[bytes], now: float) -> PauseRow:
    *words, stamp = row
    found = read(PauseRow, "scope name state since waiting", words)
    known = stamp_in(stamp.decode())
    seconds = max(0.0, now - found["since"])
    return PauseRow(**found, seconds=seconds, stored_by=known and known[1])


def workspace_stats(row: Sequence[Any]) -> WorkspaceStats:
    names = "workspace waiting scheduled running limit oldest_wait_seconds dead pause weight"
    *words, seen = row
    counted = counts(seen)
    return WorkspaceStats(
        **read(WorkspaceStats, names, words),
        lost=counted.get("lost", 0),
        would_block=counted.get("starts", 0),
        would_reject=counted.get("publishes", 0),
    )
