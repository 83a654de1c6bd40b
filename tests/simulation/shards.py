"""A simulated fleet over several shards, of which any may be away: the real claimers and permits.

The course of a seed is always the same. Each process has its own engines and breakers, as over a
network; all of them share the databases, one clock, and an oracle that knows promises only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from fairqueue import Job, Limits, Settings
from fairqueue._claim import permits
from fairqueue._claim.claimers import Claimers
from fairqueue._shards import order
from fairqueue._stores import layout
from fairqueue._stores.breaker import CircuitBreaker
from fairqueue._stores.library import Read, read_source
from fairqueue._stores.memory import Database, MemoryEngine
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Finish
from fairqueue.audit import audit
from fairqueue.errors import StoreUnavailable
from tests.simulation.course import (
    BEAT_SECONDS,
    DRAIN_SECONDS,
    ENDED_SECONDS,
    LEASE_SECONDS,
    MARGIN_SECONDS,
    QUEUES,
    TASKS,
    Course,
    Run,
)

SHARDS, PROCESSES = 3, 6
WORKSPACES = tuple(f"w{n}" for n in range(8))
FAULTS = {"lost call": 0.01, "lost reply": 0.01, "kill": 0.003, "stop": 0.003, "away": 0.001}
"""How often each comes: the first two with a call to a shard, the others with a step."""

T = TypeVar("T")


class Remote(MemoryEngine):
    """One shard as one process sees it: calls and answers may be lost."""

    server = ""

    def __init__(self, fleet: ShardFleet, number: int) -> None:
        database, read = fleet.databases[number], fleet.read
        super().__init__(database, namespace="sim", read=read, shard=number)
        self._fleet, self._breaker, self.server = fleet, CircuitBreaker(), f"server {number}"

    @property
    def breaker(self) -> CircuitBreaker:
        """What this process knows of the server."""
        return self._breaker

    def _run(self, operation: str, values: Any) -> Any:
        return self._fleet.answer(self.shard, lambda: super(Remote, self)._run(operation, values))

    def command(self, name: str, *arguments: Any) -> Any:
        return self._fleet.answer(self.shard, lambda: super(Remote, self).command(name, *arguments))


@dataclass(eq=False)
class Process:
    """A worker process, and what it runs."""

    store: ShardedStore
    claimers: Claimers
    queues: tuple[str, ...]
    runs: dict[int, Run] = field(default_factory=dict)
    renewed_at: float = 0.0
    asleep_until: float = 0.0

    @property
    def owner(self) -> str:
        """Its name."""
        return self.claimers.owner


class ShardFleet(Course):
    """The shards, their processes, their faults, and the oracle."""

    processes: list[Process]

    def __init__(self, seed: int, *, read: Read = read_source) -> None:
        super().__init__(seed)
        self.read, self.faults = read, Random(f"{seed} faults")
        self.databases = [Database(clock=self.clock, random=Random(seed)) for _ in range(SHARDS)]
        self.away_until = [0.0] * SHARDS
        self.publishing: dict[str, tuple[Job, float]] = {}
        """Jobs whose publish was not answered yet, and since when."""
        self.is_calm, self.store = True, self.open()
        self.limits = self._configure()
        self.processes = [self._process() for _ in range(PROCESSES)]
        self.is_calm = False

    def open(self) -> ShardedStore:
        """The store, as a process opens it."""
        stores = [Store(Remote(self, n), clock=self.clock) for n in range(SHARDS)]
        return ShardedStore(stores)

    def _configure(self) -> dict[str, int]:
        """Store limits that this seed chooses; return how many may run in each scope."""
        choose = self.random.choice
        found = {"total": choose((4, 8, 20)), choose(QUEUES): choose((2, 6))}
        found |= {choose(TASKS): choose((1, 3)), choose(WORKSPACES): choose((1, 2))}

        def of(names: Collection[str]) -> dict[str, Limits]:
            return {name: Limits(concurrency=found[name]) for name in names if name in found}

        total = Limits(concurrency=found["total"])
        stored = StoredLimits(
            total=total, workspaces=of(WORKSPACES), queues=of(QUEUES), tasks=of(TASKS)
        )
        self.store.configure(stored, authoritative=True)
        return found

    def _process(self) -> Process:
        self.serial += 1
        store = self.open()
        claimers = Claimers(store, Settings(lease_seconds=LEASE_SECONDS))
        owner = claimers._owner
        owner._pid, owner._name = os.getpid(), f"owner {self.serial}"
        queues = tuple(self.random.sample(QUEUES, self.random.randint(1, len(QUEUES))))
        return Process(store, claimers, queues)

    # The network

    def chance(self, fault: str) -> bool:
        """Whether this fault comes now."""
        return self.faults.random() < FAULTS[fault] and not self.is_calm

    def answer(self, shard: int, make: Callable[[], T]) -> T:
        """Call a shard, unless that or its answer is lost."""
        if self.now < self.away_until[shard] or self.chance("lost call"):
            raise StoreUnavailable("away")
        made = make()
        if self.chance("lost reply"):
            raise StoreUnavailable("no answer")
        return made

    # Users

    def _publish(self) -> None:
        """Publish a new job, or one whose publish was not answered, once more."""
        if self.publishing and self.random.random() < 0.5:
            job, since = self.random.choice([*self.publishing.values()])
        else:
            self.serial += 1
            choose = self.random.choice
            workspace = choose((*WORKSPACES, *WORKSPACES[:1] * 4))
            job = Job(f"j{self.serial}", workspace, choose(QUEUES), choose(TASKS), b"")
            since = self.now
        if self.now > since + ENDED_SECONDS:
            self.loose.add(job.id)
        try:
            self.store.publish(job, Admission())
        except StoreUnavailable:
            self.publishing[job.id] = job, since
            return
        self.publishing.pop(job.id, None)
        self.must.add(job.id)

    def _work(self, process: Process) -> None:
        """End what is over, and claim."""
        over = [run for run in process.runs.values() if run.is_over or run.ends_at <= self.now]
        for run in over:
            run.is_over = True
            self.over.add(run.lease.job.id)
        free = max(0, self.random.randint(1, 5) - len(process.runs) + len(over))
        finishes = [Finish(run.lease.fence) for run in over]
        has_waiter = self.random.random() < 0.7
        try:
            claimed = process.claimers.claim(process.queues, free, finishes, has_waiter=has_waiter)
        except StoreUnavailable:
            return
        owed = {fence for fence, _ in process.claimers.pending()}
        for run in over:
            self._end(process, run, claimed.lost, owed)
        for lease in claimed.leases:
            length = self.random.choice((0.2, 2.0, 10.0, 60.0, 300.0)) * self.random.random()
            ends_at = self.now + (0.0 if self.is_calm else length)
            self.begin(process, Run(lease, self.now + LEASE_SECONDS, ends_at))

    def _keep(self, process: Process) -> None:
        """Renew what runs, and stop what could not be renewed."""
        for run in [*process.runs.values()]:
            if self.now >= run.deadline - MARGIN_SECONDS and not run.is_over:
                self.note(f"{process.owner} stops {run.lease.job.id}")
                del process.runs[run.lease.fence]
        if self.now < process.renewed_at + BEAT_SECONDS:
            return
        progress = [(fence, 0.1) for fence in process.runs]
        with suppress(StoreUnavailable):
            found = process.claimers.renew(process.store, progress, process.owner)
            process.renewed_at = self.now
            for run in [*process.runs.values()]:
                if run.lease.fence in found.lost:
                    self._lose(process, run)
                elif run.lease.fence not in found.failed:
                    run.deadline = self.now + LEASE_SECONDS

    # What must hold

    def _end(
        self, process: Process, run: Run, lost: Collection[int], owed: Collection[int]
    ) -> None:
        job_id, fence = run.lease.job.id, run.lease.fence
        if fence in lost:
            self._lose(process, run)
            return
        self.note(f"{process.owner} ends {job_id} {fence}")
        del process.runs[fence]
        if fence in owed:  # it counts when its shard has it, if its process lives until then
            self.loose.add(job_id)
            return
        self.count_end(job_id)

    def _lose(self, process: Process, run: Run) -> None:
        job_id = run.lease.job.id
        self.note(f"{process.owner} has lost {job_id} {run.lease.fence}")
        self.require_may_lose(run)
        del process.runs[run.lease.fence]

    # The course

    def step(self) -> None:
        """Let time pass, one user act, and faults come."""
        self.steps += 1
        seconds = self.random.expovariate(1 / 0.1)
        self.now += seconds
        self.clock.advance(seconds)
        awake = [one for one in self.processes if one.asleep_until <= self.now]
        process = self.random.choice(awake) if awake else None
        if self.random.random() < 0.25 and (not self.is_calm or self.publishing):
            self._publish()
        elif process is not None:
            self._keep(process)
            self._work(process)
        process = self.random.choice(self.processes)
        if self.chance("kill"):
            self.note(f"{process.owner} is killed")
            self.processes[self.processes.index(process)] = self._process()
        if self.chance("stop"):
            process.asleep_until = self.now + self.random.choice((5.0, 40.0, 100.0))
            self.note(f"{process.owner} stops until {process.asleep_until:.2f}")
        if self.chance("away"):
            shard = self.random.randrange(SHARDS)
            self.away_until[shard] = self.now + self.random.choice((2.0, 20.0, 90.0))
            self.note(f"shard {shard} is away until {self.away_until[shard]:.2f}")

    def play(self, steps: int) -> None:
        """Make this many steps, and drain; processes go by the time of this course."""
        with ExitStack() as stack:
            for module in (time, permits, order, layout):
                stack.enter_context(patch.object(module, "monotonic", lambda: self.now))
            super().play(steps)

    def drain(self) -> None:
        """Let the faults end: everything that is left must run."""
        self.is_calm, self.away_until = True, [0.0] * SHARDS
        self.note("the faults end")
        self.processes[0].queues = QUEUES
        until = self.now + DRAIN_SECONDS
        while self.publishing or self.must - self.over or any(p.runs for p in self.processes):
            self.require(self.now < until, f"stuck: {sorted(self.must - self.over)[:5]}")
            for _ in range(200):
                self.step()
        for store in self.store.shards:
            self.require(audit(store.engine, now=self.clock()) == [], "the auditor finds something")
