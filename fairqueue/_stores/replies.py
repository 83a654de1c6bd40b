"""Reads the scripts' replies, and writes a job's part of their arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from fairqueue._keys import decode, decode_job, encode, encode_job, encode_task
from fairqueue._lazy import reports
from fairqueue._shards.placement import Time
from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.fairness import retry_after
from fairqueue._types import (
    Admission,
    AdmittedRequest,
    App,
    Claimed,
    Ending,
    Finish,
    FoundJob,
    Job,
    JobId,
    Lease,
    Outcome,
    QueueHead,
    Renewed,
    WorkerRow,
)
from fairqueue.errors import CapacityExceeded, LeaseLost

FENCES_PER_SECOND = 1e6
MOST_DETAILS = 8_000  # characters of a traceback: its end says what was wrong
MOST_TASKS_BYTES = 65_536
"""An app whose names are longer does not tell its tasks."""
MOST_TAKES_BYTES = 4000
"""How much of an owner's queue names is kept."""
MOVES = 6
LISTS = ("queues", "tasks")
_STEPS = re.compile(rb"[\d.]+ \S+ steps \d+ \S+\n[^\n]*\n((?:[^\n]+\n)*)")


def finishes_text(finishes: Iterable[Finish]) -> str:
    """Write endings as a claimer sends them."""
    return " ".join([f"{f.fence}:{f.ending.value}:{f.seconds!r}{f.how}" for f in finishes])


def released(
    fence: int,
    *,
    seconds: float = 0.0,
    delay_seconds: float = 0.0,
    counted: bool = False,
    declined: bool = False,
    refused_seconds: float | None = None,
    waits: str = "",
) -> Finish:
    """Return the end of a job that goes back to the head of its lane, or is due after a delay.

    Unless ``counted``, the delivery does not count towards ``max_deliveries``; a counted one that
    reaches it makes the job a dead letter. The whole charge is refunded if it is neither counted
    nor ``declined``, and ``seconds`` is 0. A job that was acked early runs again, too.
    ``declined``: the worker cannot run it; :attr:`Lease.declined` counts how often.
    ``refused_seconds``: it got no permit; above 0 its task closes here for so long.
    ``waits``: the id of its task, which waits for children: the end of one wakes it earlier.
    """
    what = "counted" if counted else "declined" if declined else "released"
    refused = "" if refused_seconds is None else repr(refused_seconds)
    how = f":{what}:{delay_seconds!r}:{refused}:{encode(waits) if waits else ''}"
    outcome = "suspended" if waits else "returned" if counted else what
    return Finish(fence, Ending.RELEASE, seconds, how, outcome)


def rejected(fence: int, *, reason: str, seconds: float = 0.0, details: str = "") -> Finish:
    """Return the end of a job that becomes a dead letter.

    The end of ``details`` is kept: what the framework says of the failure.
    """
    named = encode_task(reason)  # it may be empty, too
    how = f":{named}:{encode(details[-MOST_DETAILS:])}"
    return Finish(fence, Ending.REJECT, seconds, how, "dead")


def fences(reply: bytes) -> frozenset[int]:
    """Read fences separated by spaces."""
    return frozenset(map(int, reply.split()))


def renewed(reply: bytes) -> Renewed:
    lost, cancelled, failed, wide = reply.split(b"|")
    pairs = (each.split("=") for each in wide.decode().split())
    limits = {int(fence): tuple(of.split(",")) for fence, of in pairs}
    return Renewed(fences(lost), fences(cancelled), fences(failed), limits)


def all_renewed(parts: Collection[Renewed]) -> Renewed:
    names = "lost", "cancelled", "failed"
    lost, cancelled, failed = (
        frozenset[int]().union(*(getattr(part, name) for part in parts)) for name in names
    )
    wide = {fence: limits for part in parts for fence, limits in part.wide.items()}
    return Renewed(lost, cancelled, failed, wide)


def job_text(job: Job) -> str:
    queue, workspace, task = encode(job.queue), encode(job.workspace), encode_task(job.task)
    return f"{queue} {workspace} {task} {job.priority} {workspace}/{queue}/{encode(job.id)}"


def publish_text(job: Job, admission: Admission, shards: str = "", *, names: bool = False) -> str:
    """Write a job, preceded by how it is published, which is short for most.

    ``names``: register its task, too.
    """
    how = str(int(names)) + shards
    if job.delay_seconds or job.expires_seconds is not None or not admission.is_usual:
        how = ",".join((how, *_options(job, admission)))
    if admission.tick is not None:
        how += ";" + admission.tick.text()
    return f"{how} {job_text(job)}"


def _options(job: Job, admission: Admission) -> Sequence[str]:
    expires, unique_for = job.expires_seconds, admission.unique_for
    return (
        str(job.delay_seconds or 0),
        str((admission.exempt and admission.retry_of) or int(admission.exempt)),
        str(int(admission.without_workspace)),
        str(admission.parent_fence or ""),
        encode(admission.group or ""),
        "" if expires is None else repr(float(expires)),
        "" if unique_for is None else repr(float(unique_for)),
        encode(admission.unique_key or ""),
    )


OUTCOMES = {
    0: Outcome.REPEATED,
    1: Outcome.CREATED,
    3: Outcome.EXISTING,
    4: Outcome.REPLACED,
}


def published(reply: int | Sequence[Any], job: Job) -> JobId:
    """Read the outcome of a publish, or raise its refusal."""
    words: Sequence[Any] = [reply] if isinstance(reply, int) else reply
    status, *rest = words
    if status == -1:
        raise LeaseLost(job.id, job.workspace)
    if status == MOVES:
        raise WorkspaceMoves(job.workspace)
    if status not in OUTCOMES:
        raise refusal(rest, job)
    return JobId(OUTCOMES[status], decode_job(rest[0]) if rest else job.id)


def refusal(reply: Sequence[Any], job: Job, wanted: int = 1) -> CapacityExceeded:
    """Read why this publish was refused, or one of ``wanted`` jobs together."""
    scope, limit, waiting, start_interval, idle, kept = reply
    idle, draining, limit = float(idle), limit < 0, max(0, limit)
    after = retry_after(
        waiting + kept - limit + wanted, float(start_interval), idle if idle >= 0 else None
    )
    return CapacityExceeded(
        scope.decode(),
        limit,
        waiting,
        after,
        job.workspace,
        job.queue,
        job.task,
        draining,
        wanted,
        kept,
    )


def lease(about: bytes, record: bytes, owner: str, lease_seconds: float, sent: float) -> Lease:
    """Read one leased job from the claim's reply and its record."""
    fence, job_id, queue, deliveries, since, *more = about.split()
    header, _, payload = record.partition(b"\n")
    workspace, task, priority, _, history, times = header.split()
    handed = _handed(history)
    names = decode_job(job_id), decode(workspace), decode(queue), decode(task)
    job = Job(*names, payload, int(priority))
    acked_early = more == [b"early"]
    return Lease(
        job,
        int(fence),
        int(deliveries),
        handed > 0,
        lease_seconds,
        owner,
        sent,
        declined=declined(history),
        wide_limits=tuple(more[0].decode().split(",")) if more and not acked_early else (),
        acked_early=acked_early,
        **({} if handed or since == b"-" else _waits(int(fence), times, float(since))),
    )


def _handed(history: bytes) -> int:
    return int(history.partition(b",")[0].partition(b"/")[0])


def declined(history: bytes) -> int:
    """Return how often workers that could not run a job have returned it."""
    return max(0, _handed(history) - 1)


def _waits(fence: int, times: bytes, since: float) -> dict[str, float]:
    """Return how long a job waited; its fence tells the time of its claim, in microseconds."""
    published, _, due = times.partition(b"/")[0].partition(b">")
    claimed, ready = fence / FENCES_PER_SECOND, float(due or published)
    return {
        "waited_seconds": max(0.0, claimed - ready),
        "runnable_seconds": max(0.0, claimed - max(ready, since)),
    }


def claimed(
    reply: Sequence[Any], owner: str, lease_seconds: float, sent: float
) -> tuple[Claimed, str]:
    """Read the reply of one finish-and-claim, and what the script could not read."""
    _, lost, about, *jobs = reply
    words, _, unread = about.partition(b" ")
    wait, _, stands = words.partition(b"/")
    pairs = zip(jobs[::2], jobs[1::2], strict=True)
    leases = tuple(lease(*pair, owner, lease_seconds, sent) for pair in pairs)
    claimed = Claimed(leases, fences(lost), float(wait), heads_of(stands))
    return claimed, unread.decode(errors="replace")


def times_text(times: Sequence[Time]) -> str:
    """Write what a claim tells a shard about the others."""
    return " ".join(f"{seen!r}:{'-' if most is None else repr(most)}" for seen, most in times)


def heads_of(text: bytes) -> tuple[QueueHead, ...]:
    """Read the heads of some queues; empty if they were not asked for."""
    pairs = (each.partition(b",") for each in text.split(b";") if each)
    return tuple(QueueHead(float(head) if head else None, float(seen)) for head, _, seen in pairs)


def _delivery(text: str) -> reports.Delivery:
    fence, owner, claimed, ended, seconds, outcome = text.split(":")
    times = float(claimed), float(ended), float(seconds)
    return reports.Delivery(int(fence), decode(owner), *times, outcome)


def deliveries_in(record: bytes) -> tuple[reports.Delivery, ...]:
    """Read the starts of a job's record that count and are over, the oldest first; 16 are kept."""
    history = record.split(None, 5)[4].decode()
    return tuple(map(_delivery, history.split(",")[1:]))


def dead_letter(job_id: bytes, letter: bytes) -> reports.DeadLetter:
    """Read one dead letter: how it died, and the job's record."""
    about, _, record = letter.partition(b"\n")
    died, queue, reason, deliveries, *more = about.split()
    return reports.DeadLetter(
        job(decode_job(job_id), decode(queue), record),
        decode(reason),
        float(died),
        int(deliveries),
        deliveries_in(record),
        "".join(map(decode, more)),
    )


def steps(letter: bytes | None) -> dict[str, str]:
    """Read the finished steps of a task, their values as JSON. ValueError: it is damaged."""
    if not letter:
        return {}
    found = _STEPS.fullmatch(letter)
    if found is None:
        raise ValueError("its head is not that of finished steps, or its last line is cut off")
    lines = [line.split(b" ", 2) for line in found[1].splitlines()]
    for _, seconds, value in lines:
        json.loads(value), float(seconds)
    return {decode(name): value.decode() for name, _, value in lines}


def finished_steps(told: bytes) -> tuple[reports.FinishedStep, ...]:
    """Read which steps have finished; a child counts as one once its result was taken."""
    lines = (line.split(b" ", 2) for line in told.splitlines())
    found = ((decode(name), float(seconds)) for name, seconds, _ in lines)
    return tuple(reports.FinishedStep(name, seconds) for name, seconds in found if "\n" not in name)


def children(told: bytes) -> tuple[reports.SentChild, ...]:
    """Read which children were sent, have not failed, and have no result that was taken."""
    lines = (line.split(b" ", 2) for line in told.splitlines())
    values = {decode(key): value for key, _, value in lines}
    sent = ((*key.partition("\n"), value) for key, value in values.items())
    return tuple(
        reports.SentChild(name, *json.loads(value))
        for name, _, n, value in sent
        if n.isdigit() and not values.keys() & {name, f"{name}\nfailed {n}"}
    )


def notice_text(letter: reports.DeadLetter) -> str:
    """Name a notice: queue, workspace, job, and when it died."""
    job = letter.job
    known_by = encode_job(job.workspace, job.queue, job.id)
    return f"{encode(job.queue)}:{encode(job.workspace)}:{known_by}:{letter.died!r}"


def found_job(known_by: str) -> FoundJob:
    return FoundJob(*map(decode, known_by.split("/")))


def job(job_id: str, queue: str, record: bytes) -> Job:
    header, _, payload = record.partition(b"\n")
    workspace, task, priority, *_ = header.split()
    return Job(job_id, decode(workspace), queue, decode(task), payload, int(priority))


def counts(text: bytes) -> dict[str, int]:
    words = (word.split("=") for word in text.decode().split())
    return {what: int(count) for what, count in words}


def observed(text: bytes) -> dict[str, int]:
    return {what: n for what, n in counts(text).items() if what != "lost"}


def without_workspace(found: Sequence[bytes]) -> dict[str, reports.WithoutWorkspace]:
    """Read how many jobs named no workspace, by task."""
    tasks, texts = map(decode, found[::2]), (text.split() for text in found[1::2])
    pairs = zip(tasks, texts, strict=True)
    return {task: reports.WithoutWorkspace(int(jobs), float(last)) for task, (jobs, last) in pairs}


def ticket(owner: str, workspace: str, number: int) -> str:
    return f"{encode(owner)}/{encode(workspace)}/{number}"


def workspace_of_ticket(ticket: str) -> str:
    _, name, _ = ticket.split("/")
    return decode(name)


def admitted_request(reply: list[Any]) -> AdmittedRequest:
    if not reply:
        return AdmittedRequest("in_flight")
    first, *rest = reply
    if first == b"waits":
        return AdmittedRequest("waits", rest[0].decode() if rest else "")
    limit, in_flight = map(int, rest)
    return AdmittedRequest("rejected", first.decode(), limit, in_flight)


def about_owner(queues: Sequence[str] | None = None, **told: Any) -> str:
    """Write what an owner tells of itself, with as many of its queues as there is room for."""
    ends = accumulate(len(encode(queue)) + 1 for queue in queues or ())
    kept = sum(end <= MOST_TAKES_BYTES for end in ends)
    told["more_queues"] = len(queues or ()) - kept
    return json.dumps({**told, "queues": queues and [*queues[:kept]]})


def app_text(app: App) -> str:
    """Write what an app declares, without its tasks if they are too many."""
    names = sorted(app.tasks or ())
    tells = app.tasks is not None and len(json.dumps(names)) <= MOST_TASKS_BYTES
    return json.dumps({"app": app.name, "tasks": names if tells else None})


def workers(texts: Mapping[bytes, bytes], now: float) -> list[WorkerRow]:
    """Read owners, each with what its app has declared; one that cannot be read is left out."""
    apps = {name[1:]: _declared(text) for name, text in texts.items() if name.startswith(b"#")}
    found = []
    for owner, text in texts.items():
        if not owner.startswith(b"#"):
            with suppress(ValueError, LookupError, TypeError):
                found.append(_worker(decode(owner), text, apps, now))
    return found


def _worker(
    owner: str, text: bytes, apps: Mapping[bytes, Mapping[str, Any]], now: float
) -> WorkerRow:
    seen, digest, about = text.split(b" ", 2)
    said = {"tasks": None, **json.loads(about), **apps.get(digest, {})}
    told = {name: said[name] for name in said.keys() & WorkerRow.__annotations__.keys()}
    told["failing"] = tuple(map(tuple, told.get("failing", ())))
    lists = {name: None if (of := told[name]) is None else tuple(of) for name in LISTS}
    named = {"owner": owner, "worker": told["worker"] or owner}
    silent = max(0.0, now - float(seen))
    return WorkerRow(
        **{**told, **lists, **named}, last_seen=float(seen), silent_seconds=silent, running=0
    )


def _declared(text: bytes) -> dict[str, Any]:
    """Read what an app declares: nothing, if that is damaged."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        return {}
