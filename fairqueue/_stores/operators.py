"""The operators' half of a store: limits, pauses, cancelling, dead letters, repairs, handover."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fairqueue._keys import decode_job, encode, encode_in, encode_job, encode_task
from fairqueue._lazy import reports, rows
from fairqueue._stores import limits_text, replies
from fairqueue._stores.engine import Engine, Value, WorkspaceMoves
from fairqueue._stores.layout import Layout, Mark, keep_mark
from fairqueue._types import (
    Cancelled,
    FoundJob,
    Job,
    JobState,
    Limits,
    Pause,
    StoredLimits,
)
from fairqueue._utils import Throttle, process_name
from fairqueue.errors import FairQueueError, UniqueKeyHeld

log = logging.getLogger("fairqueue")
PAGE = 100
FORGOTTEN_AT_ONCE = 50
KEEP_ANSWERS_SECONDS = 3600.0
INDEXED_AT_ONCE = 200
NOT_INDEXED = -2
IMPORTS_SUSPENDED, IMPORT_MOVES = -1, -2
EXPORT_PAGE = 50
EXPORT_EACH = 10  # jobs of one workspace in one call
MOST_DROPPED = 500  # jobs in one call: a few milliseconds
MOST_CANCELLED = 100  # each leaves a notice
PLACES_AT_ONCE, QUEUES_AT_ONCE = 400, 16  # of which each is asked for an id


def _named(workspace: str, queue: str, job_id: str) -> dict[str, Any]:
    """Name a job."""
    return {"workspace": encode(workspace), "id": encode_job(workspace, queue, job_id)}


class OperatorStore:
    """The operators' half of the store; ``clock`` is the scripts' time, in seconds."""

    def __init__(self, engine: Engine, *, clock: Callable[[], float] | None = None) -> None:
        self.engine = engine
        self._clock = clock
        self._named: dict[str, float] = {}
        self._log_throttle = Throttle()
        self.layout = Layout(Mark(1))
        """What is known of the shards; it is the sharded store's, if this is one of several."""

    def _call(self, operation: str, /, **arguments: Value) -> Any:
        now = repr(self._clock()) if self._clock else ""
        return self.engine.call(operation, now=now, **arguments)

    def _steps(
        self, operation: str, begin: bytes = b"0", end: bytes = b"0", /, **arguments: Value
    ) -> Iterator[list[Any]]:
        """Run an operation step by step; yield what follows the cursor in each reply."""
        cursor = begin
        is_over = False
        while not is_over:
            cursor, *found = self._call(operation, cursor=cursor, **arguments)
            is_over = cursor == end
            yield found

    def has_limits(self) -> bool:
        """Return whether limits were ever configured here, even if none are left.

        False after a process has configured limits: the store has lost its data.
        """
        return bool(self.engine.command("HEXISTS", self.engine.keys.key("limits"), "configured"))

    def _call_indexed(self, operation: str, /, **arguments: Value) -> Any:
        """Run an operation that gives limits to tasks; index their leases first if necessary.

        One of several shards knows from its mark which limits are wider than itself.
        """
        keep_mark(self.engine, self.layout)
        reply = self._call(operation, **arguments)
        while isinstance(reply, list) and reply[:1] == [NOT_INDEXED]:
            for _ in self.index_tasks([task.decode() for task in reply[1:]]):
                pass
            reply = self._call(operation, **arguments)
        return reply

    def index_tasks(self, tasks: Sequence[str]) -> Iterator[None]:
        """Let every lease of these tasks hold slots of its task; bounded steps.

        ``set_limits``, ``pause`` and ``configure`` do so before a task gets its first limit.
        """
        for _ in self._steps("index_tasks", tasks=" ".join(tasks), count=INDEXED_AT_ONCE):
            yield

    def settle_change(self) -> None:
        """Apply a changed default, or a task's limit or pause, to every workspace; bounded steps.

        ``set_limits``, ``pause`` and ``configure`` do so, and claims help: afterwards no claim
        meets workspaces that may not start any more.
        """
        while self._call("settle_change"):
            pass

    def configure(
        self,
        limits: StoredLimits,
        *,
        authoritative: bool,
        erases: bool = True,
        on_replaced: Callable[[Sequence[str], int], object] | None = None,
        defers: bool = False,  # noqa: ARG002 - only one of several shards may be away
    ) -> bool:
        """Store limits if none are stored yet, or always if ``authoritative``.

        Returns whether the stored limits now equal ``limits``. Limits that name nothing remove the
        stored ones only if it ``erases``. ``on_replaced`` is called with sentences about replaced
        limits, at most 20, and with their number.
        """
        fields, digest = self._configured(limits)
        is_ours, provider_is_gone, n, *changes = self._call_indexed(
            "configure",
            authoritative=int(authoritative),
            erases=int(erases),
            by=encode(process_name()),
            digest=digest,
            fields=fields,
            retention=limits_text.retention(limits),
        )
        if is_ours:
            self.settle_change()
        while provider_is_gone:
            provider_is_gone = self.forget_provider_limits()
        if n and on_replaced is not None:
            on_replaced([limits_text.replaced(change) for change in changes], n)
        return bool(is_ours)

    def _configured(self, limits: StoredLimits) -> tuple[str, str]:
        """Write a configuration, and its digest."""
        fields = "".join(f"{field} {text}\n" for field, text in limits_text.configured(limits))
        return fields, limits_text.digest(limits)

    def forget_provider_limits(self) -> int:
        """Forget a page of a limit provider's answers, if no configuration has one any more.

        Returns how many workspaces were forgotten.
        """
        return int(self._call("forget_provider_limits", count=FORGOTTEN_AT_ONCE))

    def set_limits(self, scope: str, name: str, limits: Limits | None) -> None:
        """Set live limits; None removes them. Others stay.

        ConfigurationError, with nothing changed: the reserve would exceed the concurrency.
        """
        changes = limits_text.text_of(limits) if limits else ""
        stands = self._call_indexed(
            "set_limits",
            scope=scope,
            name=encode_in(scope, name),
            changes=changes,
            by=encode(process_name()),
        )
        if limits and isinstance(stands, list):
            raise limits_text.too_high(name, limits, stands[0])
        if scope in {"default", "task"}:
            self.settle_change()

    def get_limits(self, scope: str, name: str) -> list[rows.StoredLimitsRow]:
        """Return the limits stored for a scope and name, by source.

        Sources, in rising precedence: ``"default"``, ``"live default"``, ``"configured"``,
        ``"limit_provider"``, ``"live"``; only those that apply and set something.
        """
        found = self._call("get_limits", scope=scope, name=encode_in(scope, name))
        triples = zip(found[::3], found[1::3], found[2::3], strict=True)
        read = [
            limits_text.row(source.decode(), scope, name, text, stamp)
            for source, text, stamp in triples
        ]
        return [row for row in read if row.limits]

    def put_provider_limits(
        self,
        workspace: str,
        limits: Limits | None,
        *,
        age_seconds: float = 0.0,
        keep_seconds: float = KEEP_ANSWERS_SECONDS,
    ) -> bool:
        """Store a limit provider's answer for a workspace; None: it has no limits for it.

        It overrides configured limits, is overridden by live limits, and applies to jobs
        already waiting. Returns whether it changed anything. ``age_seconds`` is how long ago the
        provider was called: an answer to a later call is not overwritten. A configuration
        without a provider drops all answers. So does this call with answers older than
        ``keep_seconds``, a few at a time, of workspaces without jobs, leases and debt.
        """
        return bool(
            self._call(
                "put_provider_limits",
                workspace=encode(workspace),
                text="" if limits is None else limits_text.text_of(limits) or "named=1",
                age_seconds=age_seconds,
                keep_seconds=keep_seconds,
            )
        )

    def _queues(self) -> list[str]:
        key = self.engine.keys.key("shard")
        listed = self.engine.command("HGET", key, "queues")
        if listed is not None:
            return str(listed.decode()).split()
        found = self.engine.command("HKEYS", key)
        return [name[6:].decode() for name in found if name.startswith(b"queue:")]

    def purge(
        self,
        queue: str | None = None,
        workspace: str | None = None,
        task: str | None = None,
        *,
        cancelled: bool = False,
    ) -> Iterator[int]:
        """Remove waiting and scheduled jobs that match everything given.

        Each item is one atomic step of bounded length: the number of jobs it removed. With
        ``task`` every job of the queues concerned is examined. With ``cancelled`` each leaves a
        failure notice, as with :meth:`cancel`.
        """
        queues = [encode(queue or "")]
        if task is not None and queue is None:
            queues = self._queues()
        most = MOST_CANCELLED if cancelled else MOST_DROPPED
        named = {
            "workspace": encode(workspace or ""),
            "task": encode_task(task) if task is not None else "",
        }
        how: dict[str, Value] = {"most": most, "each": most, "cancelled": int(cancelled), **named}
        for name in queues:
            cursor = b"0"
            while cursor:
                cursor, dropped = self._purge(cursor, queue=name, **how)
                yield dropped

    def _purge(self, cursor: bytes, **how: Value) -> tuple[bytes, int]:
        usual: dict[str, Value] = {"workspace": "", "task": "", "cancelled": 0, "lists": ""}
        cursor, dropped = self._call("purge", cursor=cursor, **{**usual, "count": PAGE, **how})
        return cursor, int(dropped)

    def cancel(self, job_id: str, *, workspace: str, queue: str) -> Cancelled:
        """Cancel one job: remove it if it waits, signal its worker if it runs.

        In the same step a waiting job leaves a failure notice with the reason ``cancelled``; so
        does a running one when its lease expires or is released. A notice counts against the
        retention of dead letters, in a store of its own per workspace.
        """
        return Cancelled(self._call("cancel", **_named(workspace, queue, job_id)).decode())

    def withdraw(self, job_id: str, *, workspace: str, queue: str) -> Job | None:
        """Cancel and return a waiting or scheduled job; None: there is none, or no more.

        It leaves a failure notice, so its end is reported whether or not the reply arrives.
        """
        found = self._call("withdraw", **_named(workspace, queue, job_id))
        return replies.job(job_id, queue, found[0]) if found else None

    def locate(
        self, job_id: str, *, workspace: str | None, queue: str | None
    ) -> list[tuple[JobState, FoundJob]]:
        """Return where there are jobs of this id, and in what state; it takes bounded steps.

        One that waits or runs is said to wait. A dead job of a queue that is not in use any more is
        found in the workspace that is named.
        """
        queues = [encode(queue)] if queue else self._queues() or ([""] if workspace else [])
        where: dict[str, Value] = {"workspace": encode(workspace or ""), "id": encode(job_id)}
        rows: list[bytes] = []
        for at in range(0, len(queues), QUEUES_AT_ONCE):
            some = queues[at : at + QUEUES_AT_ONCE]
            where |= {"queues": " ".join(some), "count": PLACES_AT_ONCE // len(some)}
            for page in self._steps("locate", **where):
                rows += page
        found = (row.decode().split() for row in rows)
        return [(JobState(state), replies.found_job(job)) for state, job in found]

    def replay(
        self,
        workspace: str,
        queue: str,
        job_id: str,
        *,
        delay_seconds: float = 0.0,
        from_start: bool = False,
    ) -> bool:
        """Re-enqueue a dead letter; False: there is none, or its id is in use again.

        ``from_start``: its finished steps run again.

        UniqueKeyHeld: another job holds its unique key, so it stays dead.
        """
        of = _named(workspace, queue, job_id)
        done = self._call("replay", **of, delay=delay_seconds, from_start=int(from_start))
        if isinstance(done, bytes):
            raise UniqueKeyHeld(job_id, workspace, decode_job(done))
        return bool(done)

    def purge_dead(self, workspace: str, queue: str, job_id: str) -> bool:
        """Delete a dead letter; False: there is none of this id."""
        return bool(self._call("purge_dead", **_named(workspace, queue, job_id)))

    def take_failure_notices(
        self, queues: Sequence[str], *, n: int, hold_seconds: float
    ) -> list[reports.DeadLetter]:
        """Take up to ``n`` notices of these queues, reserved for ``hold_seconds``.

        Replaying or purging a dead letter removes its notice.
        """
        found = self._call(
            "take_failure_notices",
            queues=" ".join(map(encode, queues)),
            n=n,
            hold_seconds=hold_seconds,
        )
        pairs = zip(found[1::3], found[2::3], strict=True)
        return [replies.dead_letter(*pair) for pair in pairs]

    def drop_failure_notices(self, letters: Sequence[reports.DeadLetter]) -> int:
        """Mark failures as reported; a dead letter stays, nothing stays of a cancelled job."""
        text = " ".join(map(replies.notice_text, letters))
        return int(self._call("drop_failure_notices", notices=text))

    def pause(self, scope: str, name: str, how: Pause | None) -> Pause | None:
        """Pause, drain or, with None, resume a scope; return its previous state.

        A pause earns no credit in the fair order. A paused task does not hold back other tasks.
        """
        wanted = how.value if how else ""
        before = self._call_indexed(
            "pause", scope=scope, name=encode_in(scope, name), how=wanted, by=encode(process_name())
        )
        if scope == "task":
            self.settle_change()
        return Pause(before.decode()) if before else None

    def rebuild(self, what: str, names: Sequence[str], extra: str = "") -> str:
        """Rebuild one thing that the auditor has found; return what was done, in a word, or ''.

        One atomic step, which looks again and changes nothing that is sound. Names are encoded.
        """
        word: bytes = self._call("rebuild", what=what, names="\n".join(names), extra=extra)
        return word.decode()

    def import_message(
        self,
        source: str,
        job: Job,
        *,
        without_workspace: bool = False,
        shards: str = "",
    ) -> bool:
        """Replace the next message of another system's list with a job, in one step.

        See :meth:`fairqueue.operate.Jobs.import_message`. Raises FairQueueError while imports are
        suspended; WorkspaceMoves, as :meth:`publish` does.
        """
        done = self._call(
            "import_message",
            list=source,
            message=job.payload,
            job=replies.job_text(job),
            delay=job.delay_seconds or 0,
            unnamed=int(without_workspace),
            shards=shards,
        )
        if done == IMPORT_MOVES:
            raise WorkspaceMoves(job.workspace)
        if done == IMPORTS_SUSPENDED:
            raise FairQueueError(
                "imports are suspended while jobs are exported to the other system: "
                "import again when the export has ended, or call suspend_imports(0)"
            )
        return bool(done)

    def export_jobs(self, queue: str, lists: Sequence[tuple[int, str]]) -> Iterator[int]:
        """Move a queue's waiting and scheduled jobs into other lists; items as in purge."""
        text = " ".join(f"{least} {encode(name)}" for least, name in lists)
        how: dict[str, Value] = {"queue": encode(queue), "lists": text}
        how |= {"count": EXPORT_PAGE, "each": EXPORT_EACH, "most": 10**6}  # in turns: a whole page
        cursor, of_round = b"0", 0
        while cursor:
            cursor, moved = self._purge(cursor, **how)
            yield moved
            of_round += moved
            if cursor == b"jobs:0" and of_round:
                cursor, of_round = b"0", 0

    def suspend_imports(self, seconds: float) -> None:
        """Refuse imports for this many seconds, while jobs are being exported; 0: allow them."""
        self._call("suspend_imports", seconds=seconds)
