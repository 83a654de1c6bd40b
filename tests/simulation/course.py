"""What every simulated fleet has: a course, its time and its chances, and the oracle's rules."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from fairqueue import Lease
from fairqueue.testing import ManualClock

LEASE_SECONDS, BEAT_SECONDS, MARGIN_SECONDS = 30.0, 8.0, 2.0
ENDED_SECONDS = 60.0
"""How long at least the store knows a job that has ended, if its publish is repeated."""
DRAIN_SECONDS = 1500.0
QUEUES, TASKS = ("q1", "q2", "q3"), ("t1", "t2", "t3")
GROUP, IN_GROUP = "org", ("a", "b")


class BrokenError(AssertionError):
    """A promise was broken."""


@dataclass(eq=False)
class Run:
    """A job that a worker runs."""

    lease: Lease
    deadline: float
    ends_at: float
    is_over: bool = False
    """Its worker has done its work; whether its end counts is not known yet."""
    is_spared: bool = False
    """The store was away: the lease outlives its end, once."""
    old: bool = False
    """Writes have been lost since it began: another may run beside it."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """All that may limit it."""
        job = self.lease.job
        inner = (f"{job.workspace}/{job.task}",)
        group = (GROUP,) if job.workspace in IN_GROUP else ()
        return (job.workspace, job.queue, job.task, "total", *inner, *group)


class Owner(Protocol):
    """A process that runs jobs."""

    @property
    def owner(self) -> str:
        """Its name."""

    @property
    def runs(self) -> dict[int, Run]:
        """What it runs, by fence."""


class Course(ABC):
    """The course of a seed, which is always the same, and what must hold in it."""

    processes: Sequence[Owner]
    limits: dict[str, int]
    """How many may run in each scope."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random, self.clock = seed, Random(seed), ManualClock()
        self.now = 0.0
        """By the clock of all workers, which never jumps."""
        self.is_calm = False
        self.serial = self.steps = 0
        self.trace: deque[str] = deque(maxlen=20_000)
        self.fences: set[int] = set()
        self.must: set[str] = set()
        """Jobs whose publish was answered."""
        self.done: set[str] = set()
        """Jobs of which one end was told to count."""
        self.over: set[str] = set()
        """Jobs that somebody has tried to end: they may be over."""
        self.loose: set[str] = set()
        """Jobs that may run twice: writes were lost, a publish was repeated too late, or an end
        waits for its shard."""

    def note(self, text: str) -> None:
        """Remember what happens."""
        self.trace.append(f"{self.now:9.2f}  {text}")

    def require(self, holds: object, said: str) -> None:
        """Raise an error unless a promise holds."""
        if not holds:
            raise BrokenError(said)

    def live(self) -> Iterator[Run]:
        """Runs whose workers have every right to go on."""
        for process in self.processes:
            for run in process.runs.values():
                if self.now < run.deadline and not (run.old or run.is_over):
                    yield run

    def begin(self, process: Owner, run: Run) -> bool:
        """A process has a lease; whether its job begins."""
        job, fence = run.lease.job, run.lease.fence
        self.note(
            f"{process.owner} begins {job.id} of {job.workspace} {job.queue} {job.task} {fence}"
        )
        self.require(fence not in self.fences, f"fence {fence} was given twice")
        self.fences.add(fence)
        if self.now >= run.deadline - MARGIN_SECONDS:
            return False  # as `may_begin`: the lease ends by itself
        live = [*self.live()]
        if job.id not in self.loose:
            self.require(job.id not in self.done, f"{job.id} runs although it is done")
            beside = [one for one in live if one.lease.job.id == job.id]
            self.require(not beside, f"{job.id} runs beside itself")
        process.runs[fence] = run
        for scope in run.scopes:
            n = 1 + sum(scope in one.scopes for one in live)
            most = self.limits.get(scope, n)
            self.require(n <= most, f"{job.id} is one of {n} in {scope}, where {most} may run")
        return True

    def count_end(self, job_id: str) -> None:
        """An end was told to count."""
        is_twice = job_id in self.done and job_id not in self.loose
        self.require(not is_twice, f"two ends of {job_id} count")
        self.done.add(job_id)

    def require_may_lose(self, run: Run, *, is_doubtful: bool = False) -> None:
        """A worker was told that a lease is lost: its time is over, or the call is doubtful."""
        job_id = run.lease.job.id
        is_right = self.now < run.deadline and not run.old and job_id not in self.loose
        self.require(not is_right or is_doubtful, f"{job_id} lost a lease that was renewed")

    @abstractmethod
    def step(self) -> None:
        """Let time pass, and one user make a step."""

    @abstractmethod
    def drain(self) -> None:
        """Let the faults end: everything that is left must run."""

    def play(self, steps: int) -> None:
        """Make this many steps, and drain."""
        before = random.getstate()
        random.seed(self.seed)  # what stores and processes draw by themselves
        try:
            for _ in range(steps):
                self.step()
            self.drain()
        finally:
            random.setstate(before)
