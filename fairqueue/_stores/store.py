"""The store: one method per operation, whichever engine runs the scripts.

It keeps these promises, which one test suite checks on each engine.

1. A job is in exactly one state: scheduled, waiting in a lane, leased, dead, or removed.
2. No concurrency limit is exceeded, in any interleaving. Lowering a limit stops no running job.
3. Usage is the number of leases. A lease counts until it is acked, released, rejected or reaped.
4. Only the current fencing token of a job has an effect, and only in a call of the lease's owner.
   A call with another token, or of another owner, changes nothing and returns that the lease was
   lost. Fencing tokens only grow, also where the store has lost its newest writes.
5. Workspaces of a queue are served in the order of their finish tags (worker-seconds divided by
   weight). Jobs of a workspace are served by priority, 0 first, then in order of arrival. A job
   that is given back goes to the head of its lane. Workspaces below their reserve are served
   before all others, in the same order among themselves.
6. The capacity check and the enqueue are atomic. A rejected publish stores nothing.
7. After a lost reply a call can be repeated, even much later; it takes effect only once.
8. All times are by the store's clock. Only tests replace it.
9. An idle waiter is given a runnable job within one wake-up or poll.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from fairqueue._keys import encode, encode_job, encode_task
from fairqueue._shards.placement import Time
from fairqueue._stores import replies
from fairqueue._stores.engine import Value
from fairqueue._stores.lists import ListStore
from fairqueue._stores.moves import MovesStore
from fairqueue._stores.permits import PermitStore
from fairqueue._stores.publishes import Outcome, Publishes
from fairqueue._stores.schedules import ScheduleStore
from fairqueue._stores.waiter import Waiter, poll_seconds
from fairqueue._types import (
    Admission,
    AdmittedRequest,
    Claimed,
    Finish,
    Job,
    JobId,
    Renewed,
)
from fairqueue.errors import FairQueueError

logger = logging.getLogger("fairqueue")
UNREAD = (
    "a claim skipped records that cannot be read, or failed at them: %s. Other jobs run; "
    "'fairqueue doctor' shows the records"
)
TASKS_REMEMBERED = 10_000  # names in this process
NAMED_AGAIN_SECONDS = 3600.0
RENEWED_AT_ONCE = 100  # leases in one call: more would be a long script


class StoreBase(ListStore, ScheduleStore):
    """The operations of a store of one shard or several, except an owner's numbered calls.

    There is one method per operation. Each is one atomic step unless it says otherwise: it writes
    the arguments, runs the operation's script and reads the reply.
    """

    @property
    def shards(self) -> tuple[Store, ...]:
        raise NotImplementedError

    @property
    def store_id(self) -> str:
        """Identify the keys: the same for all stores on them, whatever the number of shards."""
        return self.shards[0].engine.store_id

    def is_stored(self, job: Job) -> bool:
        """Return whether there is a job of this id on its queue with this payload."""
        engine = self.home(job.workspace).engine
        known_by = encode_job(job.workspace, job.queue, job.id)
        record = engine.command("HGET", engine.keys.key("jobs", job.queue), known_by)
        return record is not None and bool(record.partition(b"\n")[2] == job.payload)

    def home(self, workspace: str) -> Store:
        """Return the shard on which a workspace lives."""
        raise NotImplementedError

    def look(self, shards: Sequence[Store] = ()) -> None:
        """Read the number of shards again, if it is time; see ``Layout``.

        ``shards``: those to ask; default: all.
        """

    def publish(self, job: Job, admission: Admission, *, shards: str = "") -> JobId:
        """Enqueue one job, unless its id was published before or its unique key is held.

        A job that is not started before it expires becomes a dead letter (``expired``) with a
        failure notice. Raises CapacityExceeded if a capacity is reached, and LeaseLost if the
        parent's lease was lost. ``shards``: how many shards the caller knows; raises WorkspaceMoves
        if that has changed.
        """
        text = replies.publish_text(job, admission, shards, names=self._names(job.task))
        return replies.published(self._call("publish", job=text, payload=job.payload), job)

    def publish_many(
        self, jobs: Sequence[tuple[Job, Admission]], *, shards: str = ""
    ) -> list[Outcome]:
        """Publish each in turn, up to a hundred in a step; return the result or error of each.

        The jobs of one group given here are admitted together or not at all, in the step with the
        first of them. Raises PublishInterrupted.
        """

        def call(groups: str, packed: bytes) -> Any:
            return self._call("publish_many", groups=groups, jobs=packed)

        return Publishes(jobs, shards, self._names).send(call)

    def _names(self, task: str) -> bool:
        """Whether the next publish registers this task, as it does now and then."""
        now = monotonic()
        if now < self._named.get(task, 0):
            return False
        if len(self._named) >= TASKS_REMEMBERED:
            self._named.clear()
        self._named[task] = now + NAMED_AGAIN_SECONDS
        return True

    def renew(
        self, progress: Sequence[tuple[int, float]], *, owner: str, lease_seconds: float
    ) -> Renewed:
        """Extend leases of one owner, given (fence, worker-seconds so far).

        Returns which are lost or cancelled, and which could not be renewed while others were.
        Raises the error if none could.
        """

        def renew(some: Sequence[tuple[int, float]]) -> Renewed:
            text = " ".join(f"{fence}:{seconds!r}" for fence, seconds in some)
            reply = self._call(
                "renew", owner=encode(owner), lease_seconds=lease_seconds, progress=text
            )
            return replies.renewed(reply)

        begins = range(0, max(1, len(progress)), RENEWED_AT_ONCE)
        return replies.all_renewed(
            [renew(progress[begin : begin + RENEWED_AT_ONCE]) for begin in begins]
        )

    def note_progress(self, fence: int, workspace: str, progress: str) -> bool:
        """Note how far a running job is; False: its lease is lost."""
        name = encode(workspace)
        return bool(self._call("note_progress", fence=fence, workspace=name, progress=progress))

    def steps(self, workspace: str, task_id: str) -> dict[str, str]:
        """Return the finished steps of a task, their values as JSON. ValueError: it is damaged."""
        letter = self._call("steps", workspace=encode(workspace), task_id=encode(task_id))
        return replies.steps(letter)

    def note_step(
        self, fence: int, workspace: str, task_id: str, step: str, line: str, *, early: bool
    ) -> str | None:
        """Keep the value of a step; return the line that is kept. None: the lease is lost.

        The first run that has kept one counts. ``line``: its encoded name, seconds and value.
        ``early``: the job was acked early, and needs no lease. Without a step all are dropped, as
        ``line`` says: ``ended``, the task well, once its job is gone; ``unread``, set aside.
        """
        named = {"workspace": encode(workspace), "task_id": encode(task_id), "step": encode(step)}
        kept = self._call("note_step", fence=fence, **named, early=int(early), line=line)
        return kept.decode() if kept else None

    def wake_parent(self, workspace: str, task_id: str) -> bool:
        """A child of this task has ended; False: its job runs, or there is none."""
        return bool(self._call("wake_parent", workspace=encode(workspace), task_id=encode(task_id)))

    def reap(self, *, max_deliveries: int | None) -> int:
        """Process a bounded number of expired leases and due timers; return how many.

        A lease that ended while the store was away is kept for one lease of its own length.
        """
        return int(self._call("reap", max_deliveries=max_deliveries or ""))

    def admit_request(
        self, ticket: str, *, lease_seconds: float, waiting_most: int
    ) -> AdmittedRequest:
        """Admit a request for a lease, or let it wait.

        It waits if fewer than ``waiting_most`` of its workspace do. The ticket is one of
        :func:`replies.ticket`. A waiting one asks again, which renews its lease and returns whether
        it is in flight; with ``waiting_most`` 0 it leaves. An admission drops tickets whose lease
        has ended.
        """
        return replies.admitted_request(
            self._call(
                "admit_request", ticket=ticket, length=lease_seconds, waiting_most=waiting_most
            )
        )

    def end_request(self, ticket: str) -> bool:
        """End a request, in flight or waiting; a waiting one takes its place. False: it is over."""
        return bool(self._call("end_request", ticket=ticket))

    def renew_requests(self, tickets: Sequence[str], *, lease_seconds: float) -> list[str]:
        """Renew requests in flight for a lease; return those of workspaces that are not here.

        Requests that the store has lost count again, also above the limits.
        """
        moved: list[bytes] = []
        for first in range(0, len(tickets), RENEWED_AT_ONCE):
            some = " ".join(tickets[first : first + RENEWED_AT_ONCE])
            moved += self._call("renew_requests", tickets=some, length=lease_seconds)
        return [ticket.decode() for ticket in moved]

    def count_requests(self, workspace: str) -> tuple[int, int, int]:
        """Count the requests in flight in all, and those of a workspace in flight and waiting."""
        in_all, in_flight, waiting = self._call("count_requests", workspace=encode(workspace))
        return in_all, in_flight, waiting

    def depth(self, queue: str, *, running: bool = False) -> int:
        """Count a queue's waiting and scheduled jobs and, with ``running``, its running ones."""
        return int(self._call("depth", queue=encode(queue), running=int(running)))

    def declare(self, queue: str, *, plain: bool) -> None:
        """Store a queue's kind: plain ones bypass fairqueue (control, events, results)."""
        self._call("declare", queue=encode(queue), kind="plain" if plain else "task")

    def is_plain(self, queue: str) -> bool | None:
        """Return a queue's declared kind; None: never declared. A publish declares it not plain."""
        kind = self._call("is_plain", queue=encode(queue))
        return kind == b"plain" if kind else None

    def waiter(self, queues: Sequence[str], refused: Container[str] = ()) -> Waiter:
        """Make a waiter for these queues, with its own connection.

        ``refused``: queues for which it waits for permits, read when it is armed.
        """
        return self.engine.waiter(queues, refused)

    def clone(self, *, timeout_seconds: float | None = None) -> StoreBase:
        """Return the same store over separate connections, for a background thread.

        With a timeout no call waits longer for the server, and none is retried automatically.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections. The store can be used again; it reconnects."""
        self.engine.close()


class Store(PermitStore, MovesStore, StoreBase):
    """A store of one shard."""

    @property
    def shards(self) -> tuple[Store, ...]:
        return (self,)

    def home(self, workspace: str) -> Store:  # noqa: ARG002 - all are here
        return self

    def clone(self, *, timeout_seconds: float | None = None, beside: Store | None = None) -> Store:
        """Return the same store over separate connections, or over those of another clone."""
        other = None if beside is None else beside.engine
        engine = self.engine.clone(timeout_seconds=timeout_seconds, beside=other)
        store = Store(engine, clock=self._clock)
        engine.late = [partial(call.func, store, **call.keywords) for call in self.engine.late]
        return store

    def _numbered(self, name: str, owner: str, number: int, **values: Value) -> Any:
        reply = self._call(name, owner=encode(owner), number=number, **values)
        if reply == [-1]:
            raise FairQueueError(
                f"call {number} of owner {owner!r} came after a later one and was not carried out"
            )
        return reply

    def claim(
        self,
        *,
        owner: str,
        number: int,
        queues: Sequence[str],
        n: int,
        lease_seconds: float,
        max_deliveries: int | None,
        finishes: Sequence[Finish] = (),
        yield_first: bool = False,
        times: Sequence[Time] = (),
        acks_early: Iterable[str] = (),
    ) -> Claimed:
        """End the leases in ``finishes``, then lease up to ``n`` jobs, in one step.

        ``number`` grows by one with every call of an owner. The same number again returns the same
        reply, without leases that were lost meanwhile; a lower one raises FairQueueError. Queues
        with runnable jobs take turns, job by job. ``n`` 0 only finishes. ``yield_first``: this
        claimer has declined jobs recently, so other waiting claimers are woken before it.
        ``times``: how far these queues are on other shards; then the reply has their heads here,
        and a queue whose head is too far is left alone. If that left fewer jobs than ``n``,
        ``wait_seconds`` is infinite. ``acks_early``: tasks whose jobs are acked early as they are
        leased, except where they need permits.
        """
        sent = monotonic()
        reply = self._numbered(
            "claim",
            owner,
            number,
            queues=" ".join(map(encode, queues)),
            n=n,
            lease_seconds=lease_seconds,
            max_deliveries=max_deliveries or "",
            poll=poll_seconds(lease_seconds, self.engine.shards_on_server),
            finishes=replies.finishes_text(finishes),
            yields=int(yield_first),
            times=replies.times_text(times),
            early=" ".join(map(encode_task, acks_early)),
        )
        claimed, unread = replies.claimed(reply, owner, lease_seconds, sent)
        if unread and self._log_throttle.passes():
            logger.warning(UNREAD, unread)
        return claimed

    def ack(
        self,
        *,
        owner: str,
        number: int,
        lease_seconds: float,
        finishes: Sequence[Finish],
        max_deliveries: int | None,
    ) -> frozenset[int]:
        """Finish without claiming, numbered like a claim; return the fences that are lost."""
        reply = self._numbered(
            "ack",
            owner,
            number,
            lease_seconds=lease_seconds,
            max_deliveries=max_deliveries or "",
            finishes=replies.finishes_text(finishes),
        )
        return replies.fences(reply[1])

    def is_leased(self, fence: int) -> bool:
        """Return whether a fence still holds a lease."""
        return bool(self.engine.command("HEXISTS", self.engine.keys.key("leases"), fence))
