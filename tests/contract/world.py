"""A store and its clock, with producers and workers under a test's control."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairqueue import DeadLetter, Job, Lease, Limits, Pause, Stats, WorkspaceStats
from fairqueue._stores import replies
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Claimed, Ending, Finish, Renewed
from fairqueue.audit import audit
from fairqueue.operate import Jobs
from fairqueue.operate.dead import DeadLetters
from fairqueue.operate.views import Views
from fairqueue.rows import DeadFilter
from fairqueue.testing import ManualClock
from tests.operators import operators_of

LEASE_SECONDS = 30.0
BEAT_SECONDS = 10.0


LEVELS = {
    "workspace": ("workspace", "a", ""),
    "task": ("task", "t", ""),
    "workspace_task": ("task", "t", "workspace_"),
    "queue": ("queue", "q", ""),
    "total": ("total", "", ""),
}
"""Where a job may be limited: the scope, its name, and how the names of its limits begin."""
WITH_RATES = ("workspace", "task", "workspace_task")


@dataclass(eq=False)
class Worker:
    """One owner of leases, which numbers its calls."""

    store: Store
    owner: str
    max_deliveries: int | None = 5
    lease_seconds: float = LEASE_SECONDS
    number: int = 0

    def _numbered(self, *, again: bool) -> dict[str, Any]:
        """What each numbered call has; ``again`` repeats the last number."""
        self.number += not again
        how = {"owner": self.owner, "number": self.number}
        return {
            **how,
            "lease_seconds": self.lease_seconds,
            "max_deliveries": self.max_deliveries,
        }

    def claim(
        self,
        n: int = 1,
        *queues: str,
        finishes: Sequence[Finish] = (),
        again: bool = False,
        yield_first: bool = False,
        acks_early: Sequence[str] = (),
    ) -> Claimed:
        """Finish and claim."""
        return self.store.claim(
            queues=queues or ("q",),
            n=n,
            finishes=finishes,
            yield_first=yield_first,
            acks_early=acks_early,
            **self._numbered(again=again),
        )

    def take(self, n: int = 1, *queues: str) -> list[Lease]:
        """Claim; return the leases."""
        return list(self.claim(n, *queues).leases)

    def take_one(self, *queues: str) -> Lease:
        """Claim exactly one job."""
        (lease,) = self.take(1, *queues)
        return lease

    def finish(
        self,
        lease: Lease,
        seconds: float = 0.0,
        ending: Ending = Ending.ACK,
        *,
        again: bool = False,
    ) -> bool:
        """Finish one job; return False if its lease was lost."""
        return self._ended(Finish(lease.fence, ending, seconds), again=again)

    def release(
        self,
        lease: Lease,
        *,
        delay_seconds: float = 0.0,
        counted: bool = False,
        seconds: float = 0.0,
        declined: bool = False,
        waits: str = "",
        again: bool = False,
    ) -> bool:
        """Release one job; return False if its lease was lost."""
        end = replies.released(
            lease.fence,
            delay_seconds=delay_seconds,
            counted=counted,
            seconds=seconds,
            declined=declined,
            waits=waits,
        )
        return self._ended(end, again=again)

    def reject(
        self,
        lease: Lease,
        reason: str = "bad",
        seconds: float = 0.0,
        *,
        details: str = "",
        again: bool = False,
    ) -> bool:
        """Reject one job; return False if its lease was lost."""
        end = replies.rejected(lease.fence, reason=reason, seconds=seconds, details=details)
        return self._ended(end, again=again)

    def _ended(self, end: Finish, *, again: bool) -> bool:
        return end.fence not in self.store.ack(finishes=[end], **self._numbered(again=again))

    def renew(self, *leases: Lease, seconds: float = 0.0) -> frozenset[int]:
        """Renew leases; return the fences that are lost."""
        return self.beat(*leases, seconds=seconds).lost

    def beat(self, *leases: Lease, seconds: float = 0.0) -> Renewed:
        """Renew leases; return the whole reply."""
        progress = [(lease.fence, seconds) for lease in leases]
        return self.store.renew(progress, owner=self.owner, lease_seconds=self.lease_seconds)


@dataclass(eq=False)
class World:
    """A store, its clock, and its producers and workers."""

    store: Store
    clock: ManualClock
    max_deliveries: int | None = 5
    _ids: itertools.count[int] = field(default_factory=itertools.count)

    def worker(self, owner: str = "w1", *, lease_seconds: float = LEASE_SECONDS) -> Worker:
        """Create a worker; only one of each name, since its calls are numbered."""
        return Worker(self.store, owner, self.max_deliveries, lease_seconds)

    def publish(
        self,
        workspace: str = "a",
        job_id: str | None = None,
        *,
        queue: str = "q",
        task: str = "t",
        payload: bytes = b"",
        priority: int = 0,
        delay_seconds: float = 0.0,
        exempt: bool = False,
        group: str | None = None,
        parent_fence: int | None = None,
        expires_seconds: float | None = None,
    ) -> str:
        """Publish one job; return its id."""
        job_id = job_id or f"j{next(self._ids)}"
        job = Job(job_id, workspace, queue, task, payload, priority, delay_seconds, expires_seconds)
        self.store.publish(job, Admission(exempt, group, parent_fence))
        return job_id

    def again(self, workspace: str, job_id: str, *, queue: str = "q") -> bool:
        """Publish an id again; return False if this added no job."""
        return self.store.publish(Job(job_id, workspace, queue, "t", b""), Admission()).is_new

    def publish_many(
        self, n: int, workspace: str = "a", *, queue: str = "q", task: str = "t"
    ) -> list[str]:
        """Publish this many jobs; return their ids."""
        return [self.publish(workspace, queue=queue, task=task) for _ in range(n)]

    def limit(self, workspace: str = "a", **limits: float | str | None) -> None:
        """Set runtime limits of a workspace."""
        self.store.set_limits("workspace", workspace, Limits(**limits))  # type: ignore[arg-type]

    def group(self, name: str, *members: str, jobs: int = 0, **limits: float) -> None:
        """Let workspaces have one parent, which has these limits, and jobs each."""
        if limits:
            self.limit(name, **limits)
        for member in members:
            self.limit(member, parent=name)
            self.publish_many(jobs, member)

    def limit_task(self, task: str = "t", **limits: float | None) -> None:
        """Set runtime limits of a task, or remove them."""
        self.store.set_limits("task", task, Limits(**limits))  # type: ignore[arg-type]

    def limit_level(self, level: str, **limits: float | None) -> None:
        """Set runtime limits of one of the LEVELS."""
        scope, name, prefix = LEVELS[level]
        named: dict[str, Any] = {prefix + limit: value for limit, value in limits.items()}
        self.store.set_limits(scope, name, Limits(**named))

    def configure(self, *, authoritative: bool = False, **limits: object) -> bool:
        """Store a configuration."""
        return self.store.configure(
            StoredLimits(**limits),  # type: ignore[arg-type]
            authoritative=authoritative,
        )

    def reap(self) -> int:
        """Run due timers, a bounded number of them."""
        return self.store.reap(max_deliveries=self.max_deliveries)

    def pass_time(self, seconds: float) -> None:
        """Let time pass while an idle worker claims every few seconds, so that it is no outage."""
        while seconds > 0:
            self.clock.advance(min(seconds, BEAT_SECONDS))
            seconds -= BEAT_SECONDS
            self.reap()

    def command(self, name: str, kind: str | tuple[str, ...], *arguments: Any) -> Any:
        """Run a command on the key of this kind, or of this kind and these names."""
        engine = self.store.engine
        of = (kind,) if isinstance(kind, str) else kind
        return engine.command(name, engine.keys.key(*of), *arguments)

    def drain(
        self, owner: str = "drain", *queues: str, rounds: int = 20, seconds: float = 1
    ) -> list[str]:
        """Run what waits, a few jobs in each round; return their ids."""
        worker, done = self.worker(owner), list[str]()
        for _ in range(rounds):
            leases = worker.take(8, *queues)
            done += ids(leases)
            for lease in leases:
                worker.finish(lease, 0.1)
            self.pass_time(seconds)
        return done

    @property
    def jobs(self) -> Jobs:
        """What operators do to jobs."""
        return operators_of(self.store).jobs

    @property
    def views(self) -> Views:
        """What operators see."""
        return operators_of(self.store).views

    def dead(self, workspace: str = "a") -> list[DeadLetter]:
        """Return the dead letters of a workspace."""
        return self.store.dead_letters(workspace)

    def replay_all(self, workspace: str = "a", *, per_second: float | None = None) -> int:
        """Publish all dead letters of a workspace again; return how many."""
        dead = DeadLetters(lambda: self.store)
        return dead.replay_all(DeadFilter(workspace), per_second=per_second)

    def purge_all(self, workspace: str = "a") -> int:
        """Drop all dead letters of a workspace; return how many."""
        return DeadLetters(lambda: self.store).purge(DeadFilter(workspace))

    def paused(self) -> dict[tuple[str, str], Pause]:
        """Return what is paused or draining, by scope and name."""
        return {(row.scope, row.name): row.state for row in self.store.pauses()}

    def queues_left_after(self, queues: Sequence[str], *, rounds: int) -> set[str]:
        """Let a worker of each queue run one job, in turns; return those whose worker got none."""
        workers = {queue: self.worker(f"of {queue}") for queue in queues}
        for _ in range(rounds):
            for queue in sorted(workers):
                self.clock.advance(0.01)
                for lease in workers[queue].take(1, queue):
                    workers.pop(queue).finish(lease, 0.01)
        return set(workers)

    def stats(self) -> Stats:
        """Return the statistics of all workspaces and queues."""
        return operators_of(self.store).views.stats()

    def row(self, workspace: str = "a") -> WorkspaceStats:
        """Return the statistics of a workspace; zeros if it is unknown."""
        rows = {row.workspace: row for row in self.store.snapshot()}
        return rows.get(workspace, WorkspaceStats(workspace, 0, 0, 0, None, None, 0, 0))


def ids(leases: Sequence[Lease]) -> list[str]:
    """Return the jobs' ids in the order of the leases."""
    return [lease.job.id for lease in leases]


def sound(world: World) -> bool:
    """Whether the auditor finds nothing."""
    assert audit(world.store.engine, now=world.clock()) == []
    return True
