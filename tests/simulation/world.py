"""A fleet in one process on the real scripts: seeded steps, faults between any two of them.

Processes, producers and tickers are generators; each ``yield`` is a point where anything may come
between. One seed is one course. The oracle knows promises and no code: what workers were told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

from fairqueue import CapacityExceeded, Job, Lease, LeaseLost, Limits
from fairqueue._keys import decode_job
from fairqueue._stores import replies
from fairqueue._stores.engine import Entry
from fairqueue._stores.library import Read, read_source
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.values import CommandError
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission, Claimed, Ending, Finish, Placed
from fairqueue.audit.keyspace import Keyspace
from fairqueue.errors import FairQueueError
from fairqueue.schedules._ticker import PUT_BY_CALL, _due
from fairqueue.schedules._timing import Schedule
from tests.failing_commands import FailingDatabase
from tests.lost_writes import restore
from tests.simulation.course import (
    BEAT_SECONDS,
    DRAIN_SECONDS,
    ENDED_SECONDS,
    GROUP,
    IN_GROUP,
    LEASE_SECONDS,
    MARGIN_SECONDS,
    QUEUES,
    TASKS,
    Course,
    Run,
)

T = TypeVar("T")
Actor = Generator[None, None, None]

EVERY_SECONDS = 60.0
PROCESSES, PRODUCERS, TICKERS = 12, 4, 2
WORKSPACES = (*IN_GROUP, "c", "d", "e")
FAULTS = {
    "lost call": 0.02,
    "lost reply": 0.03,
    "late copy": 0.03,
    "failed command": 0.01,
    "kill": 0.002,
    "stop": 0.002,
    "away": 0.0005,
    "clock": 0.0003,
    "replicate": 0.001,
    "lost writes": 0.0005,
}
"""How often each comes: the first four with a call, the others with a step."""


class LostCallError(Exception):
    """There is no answer to a call, which may have been carried out."""


@dataclass(eq=False)
class Process:
    """A worker process: an owner of leases, its calls, and its keeper."""

    owner: str
    queues: tuple[str, ...]
    number: int = 0
    runs: dict[int, Run] = field(default_factory=dict)
    actors: list[Actor] = field(default_factory=list)
    asleep_until: float = 0.0


class World(Course):
    """One store, its users, its faults, and the oracle."""

    processes: list[Process]

    def __init__(
        self,
        seed: int,
        *,
        without: frozenset[str] = frozenset(),
        processes: int = PROCESSES,
        read: Read = read_source,
    ) -> None:
        super().__init__(seed)
        self.without = without
        self.chances = {name: Random(f"{seed} {name}") for name in FAULTS}
        self.database = FailingDatabase(self.clock, random=Random(seed))
        self.engine = MemoryEngine(self.database, namespace="sim", read=read)
        self.store = Store(self.engine, clock=self.clock)
        self.away_until = 0.0
        self.pace = self.random.choice((0.1, 1.0))
        self.late: list[tuple[Callable[[], object], object]] = []
        """Copies of calls, with what was answered."""
        self.replica: list[Entry] = []
        self.replica_early = frozenset[str]()
        self.early: set[str] = set()
        """Jobs that were acked early: they may be over while they are here."""
        self.pending: set[str] = set()
        self.doubtful: set[str] = set()
        """What the last call was about, of those that failed in the middle."""
        self.latest: dict[str, int] = {}
        """The highest fence that each job has begun with."""
        self.values: dict[str, str] = {}
        """What the step of each job has returned."""
        self.ticks: defaultdict[tuple[str, float], set[str]] = defaultdict(set)
        self.ticks_are_certain = True
        self.limits = self._configure()
        self.processes = [self._process() for _ in range(processes)]
        self.others = [self._produce() for _ in range(PRODUCERS)]
        self.others += [self._tick() for _ in range(TICKERS)]

    def _configure(self) -> dict[str, int]:
        """Store limits that this seed chooses; return how many may run in each scope."""
        choose = self.random.choice
        limits = {name: choose((1, 2, 4)) for name in WORKSPACES if self.random.random() < 0.5}
        limits |= {GROUP: choose((2, 3)), choose(QUEUES): choose((2, 6)), "total": choose((8, 16))}
        shared, inner = choose(TASKS), choose(TASKS)
        each = choose((1, 2))
        limits[shared] = choose((2, 4))
        limits |= {f"{name}/{inner}": each for name in WORKSPACES}
        tasks = {shared: Limits(concurrency=limits[shared])}
        tasks[inner] = Limits(concurrency=limits.get(inner), workspace_concurrency=each)
        workspaces = {
            name: Limits(
                concurrency=limits.get(name),
                weight=choose((1.0, 1.0, 3.0)),
                parent=GROUP if name in IN_GROUP else None,
            )
            for name in WORKSPACES
        }
        workspaces[GROUP] = Limits(concurrency=limits[GROUP])
        queues = {name: Limits(concurrency=limits[name]) for name in QUEUES if name in limits}
        total = Limits(concurrency=limits["total"], capacity=200)
        stored = StoredLimits(total=total, workspaces=workspaces, queues=queues, tasks=tasks)
        self.store.configure(stored, authoritative=True)
        for name in IN_GROUP:
            placed = Placed("core", name, "s", "t1", {})
            placed.put(self.store, Schedule(every=EVERY_SECONDS, catch_up="all"), PUT_BY_CALL)
        return limits

    # The network

    def chance(self, fault: str) -> bool:
        """Whether this fault comes now; each kind has chances of its own."""
        comes = self.chances[fault].random() < FAULTS[fault]
        return comes and not self.is_calm and fault not in self.without

    def call(self, make: Callable[[], T]) -> T:
        """Call the store, unless that or its answer is lost."""
        if self.now < self.away_until or self.chance("lost call"):
            raise LostCallError
        if self.chance("failed command"):
            at = self.chances["failed command"].randint(1, 80)
            self.database.deny(lambda number, _: number == at)
        try:
            made = make()
        except CommandError as error:
            raise LostCallError from error
        finally:
            if self.database.count:
                self.database.deny(None)
        if self.chance("late copy"):
            self.late.append((make, made))
        if self.chance("lost reply"):
            raise LostCallError
        return made

    def answered(
        self, make: Callable[[], T], about: str = ""
    ) -> Generator[None, None, tuple[T, int]]:
        """Repeat a call about a new job, or of an owner, until it is answered.

        Return the answer, and how often the call was made.
        """
        self.pending.add(about)
        self.doubtful.discard(about)
        tries = 0
        while True:
            tries += 1
            try:
                made = self.call(make)
            except LostCallError as lost:
                if lost.__cause__:
                    self.doubtful.add(about)
                yield
                continue
            finally:
                self.note(f"{'' if tries == 1 else f'try {tries} of '}a call about {about or '-'}")
            self.pending.discard(about)
            return made, tries

    # Users

    def _produce(self) -> Actor:
        """Publish jobs of all kinds, each until an answer comes."""
        choose = self.random.choice
        while True:
            for _ in range(self.random.randint(0, 3)):
                yield
            self.serial += 1
            workspace = choose((*WORKSPACES, "a", "a", "a"))
            delay = choose((0.0, 0.0, 0.0, 5.0, 60.0))
            name = f"j{self.serial}"
            job = Job(
                name, workspace, choose(QUEUES), choose(TASKS), b"x", choose((0, 0, 5)), delay
            )
            yield from self._publish(job, Admission())

    def _publish(self, job: Job, admission: Admission) -> Actor:
        known_until = self.now + ENDED_SECONDS

        def publish() -> None:
            if self.now > known_until:  # its first call may have been carried out
                self.loose.add(job.id)
            self.store.publish(job, admission)

        try:
            yield from self.answered(publish, job.id)
        except CapacityExceeded:
            self.pending.discard(job.id)
            return
        if admission.tick is None:
            self.must.add(job.id)

    def _tick(self) -> Actor:
        """Publish what is due of the schedules, beside other tickers."""
        while True:
            for _ in range(self.random.randint(5, 20)):
                yield
            (now, _, rows), _ = yield from self.answered(
                lambda: self.store.due_schedules(("core",), n=4)
            )
            for row in rows:
                yield
                tick = _due(row, now, "store").tick
                self.serial += 1
                at = f"tick {row.workspace} {tick.at or 0:.0f} {self.serial}"
                job = Job(at, row.workspace, "q1", "t1", b"x")
                if tick.at is not None:
                    yield from self._publish(job, Admission(tick=tick))
                    continue
                yield from self.answered(
                    lambda row=row, tick=tick: self.store.change_schedule(  # type: ignore[misc]
                        row.workspace, row.name, "advance", tick
                    )
                )

    def _process(self) -> Process:
        self.serial += 1
        queues = tuple(self.random.sample(QUEUES, self.random.randint(1, len(QUEUES))))
        process = Process(f"w{self.serial}", queues)
        process.actors = [self._work(process), self._keep(process), self._step(process)]
        return process

    def _work(self, process: Process) -> Actor:
        """Claim, run, and end what is over, mostly with the next claim."""
        while True:
            yield
            over = [run for run in process.runs.values() if run.ends_at <= self.now]
            if over and self.random.random() < 0.2:
                yield from self._give_back(process, over.pop())
            free = self.random.randint(0, 3) if len(process.runs) < 6 else 0
            if not free and not over:
                continue
            early = [run for run in over if self.random.random() < 0.1]
            finishes = [
                Finish(run.lease.fence, Ending.ACK_EARLY if run in early else Ending.ACK, 0.5)
                for run in over
            ]
            for run in over:
                run.is_over = True
                self.over.add(run.lease.job.id)
            self.early |= {run.lease.job.id for run in early}
            sent, claimed, tries = yield from self._claim(process, free, finishes)
            for run in over:
                is_counted = run.lease.fence not in claimed.lost
                self._end(process, run, "done" if is_counted else "lost", process.owner)
            yield from self._begin_all(process, claimed, sent, tries)

    def _claim(
        self, process: Process, n: int, finishes: list[Finish]
    ) -> Generator[None, None, tuple[float, Claimed, int]]:
        process.number += 1
        number, sent = process.number, self.now
        claimed, tries = yield from self.answered(
            lambda: self.store.claim(
                owner=process.owner,
                number=number,
                queues=process.queues,
                n=n,
                lease_seconds=LEASE_SECONDS,
                max_deliveries=None,
                finishes=finishes,
            ),
            process.owner,
        )
        return sent, claimed, tries

    def _begin_all(self, process: Process, claimed: Claimed, sent: float, tries: int) -> Actor:
        """Begin what was claimed; what a repeated call brought is renewed before."""
        leases = list(claimed.leases)
        if leases and tries > 1:
            sent, lost = yield from self._renewed(process, [lease.fence for lease in leases])
            leases = [lease for lease in leases if lease.fence not in lost]
        for lease in leases:
            self._begin(process, Run(lease, sent + LEASE_SECONDS, self.now + self._length()))

    def _length(self) -> float:
        """How long a job takes: that of this seed, and nothing once the faults have ended."""
        length = self.random.choice((0.5, 2.0, 10.0, 60.0)) * self.random.random()
        return 0.0 if self.is_calm else length * self.pace

    def _renewed(
        self, process: Process, fences: list[int]
    ) -> Generator[None, None, tuple[float, frozenset[int]]]:
        """Renew until an answer comes; return when that call was sent, and what is lost."""
        while True:
            sent = self.now
            try:
                found = self.call(
                    lambda: self.store.renew(
                        [(fence, 0.1) for fence in fences],
                        owner=process.owner,
                        lease_seconds=LEASE_SECONDS,
                    )
                )
            except LostCallError:
                yield
                continue
            return sent, found.lost | found.failed

    def _keep(self, process: Process) -> Actor:
        """Renew what runs, and stop what could not be renewed."""
        renewed_at = 0.0
        while True:
            yield
            for run in [*process.runs.values()]:
                if self.now >= run.deadline - MARGIN_SECONDS and not run.is_over:
                    self._end(process, run, "stopped")
            if not process.runs or self.now < renewed_at + BEAT_SECONDS:
                continue
            runs = [*process.runs.values()]
            sent, lost = yield from self._renewed(process, [run.lease.fence for run in runs])
            renewed_at = self.now
            for run in runs:
                if run.lease.fence not in lost:
                    run.deadline, run.is_spared = sent + LEASE_SECONDS, False
                elif run.lease.fence in process.runs and not run.is_over:
                    self._end(process, run, "lost")

    def _step(self, process: Process) -> Actor:
        """Let a job that runs finish a step, which each run gives another value."""
        about = f"a step of {process.owner}"
        while True:
            yield
            runs = [run for run in process.runs.values() if not run.is_over]
            if not runs or self.random.random() < 0.8:
                continue
            lease = self.random.choice(runs).lease
            job, line = lease.job, f"s 0 {lease.fence}"
            kept, _ = yield from self.answered(
                lambda lease=lease, job=job, line=line: self.store.note_step(  # type: ignore[misc]
                    lease.fence, job.workspace, job.id, "s", line, early=False
                ),
                about,
            )
            self._note_value(process, lease, kept, about)

    def _give_back(self, process: Process, run: Run) -> Actor:
        """Release or reject one job."""
        process.number += 1
        call: dict[str, Any] = {
            "owner": process.owner,
            "number": process.number,
            "lease_seconds": LEASE_SECONDS,
        }
        fence, job_id = run.lease.fence, run.lease.job.id
        run.is_over = True
        ends_as = "done" if self.random.random() < 0.2 else "released"
        if ends_as == "done":
            self.over.add(job_id)
            end = replies.rejected(fence, reason="bad", seconds=0.5)
        else:
            delay, counted = self.random.choice((0.0, 5.0)), self.random.random() < 0.5
            end = replies.released(fence, delay_seconds=delay, counted=counted, seconds=0.5)
        lost, _ = yield from self.answered(
            lambda: self.store.ack(finishes=[end], max_deliveries=None, **call),
            process.owner,
        )
        self._end(process, run, "lost" if lost else ends_as, process.owner)

    # What must hold

    def _begin(self, process: Process, run: Run) -> None:
        job, fence = run.lease.job, run.lease.fence
        self.latest[job.id] = max(fence, self.latest.get(job.id, 0))
        if not self.begin(process, run):
            return
        if job.id.startswith("tick"):
            _, workspace, at, _ = job.id.split()
            ids = self.ticks[workspace, float(at)]
            ids.add(job.id)
            self.require(len(ids) == 1 or not self.ticks_are_certain, f"one tick is {sorted(ids)}")

    def _note_value(self, process: Process, lease: Lease, value: str | None, about: str) -> None:
        job_id, run = lease.job.id, process.runs.get(lease.fence)
        self.note(f"{process.owner} has the step of {job_id} {lease.fence}: {value}")
        if job_id in self.loose:
            return
        if value is None:
            if run and not run.is_over:
                self.require_may_lose(run, is_doubtful=about in self.doubtful)
            return
        is_stale = lease.fence < self.latest[job_id]
        self.require(not is_stale, f"an earlier run of {job_id} has kept a step")
        kept = self.values.setdefault(job_id, value)
        self.require(value == kept, f"the step of {job_id} has two values")

    def _end(self, process: Process, run: Run, how: str, about: str = "") -> None:
        job_id, fence = run.lease.job.id, run.lease.fence
        self.note(f"{process.owner} ends {job_id} {fence}: {how}")
        if how == "lost":
            self.require_may_lose(run, is_doubtful=about in self.doubtful)
        process.runs.pop(fence, None)
        if how == "done":
            self.count_end(job_id)
            self.over.add(job_id)

    # Faults

    def _disturb(self) -> None:
        """Whatever may come between two steps."""
        process = self.random.choice(self.processes)
        if self.late and self.random.random() < 0.05:
            self._deliver(*self.late.pop(self.random.randrange(len(self.late))))
        if self.chance("kill"):
            self.note(f"{process.owner} is killed, with {len(process.runs)} runs")
            self.processes.remove(process)
            self.processes.append(self._process())
        if self.chance("stop"):
            process.asleep_until = self.now + self.random.choice((5.0, 40.0, 100.0))
            self.note(f"{process.owner} stops until {process.asleep_until:.2f}")
        is_here = self.now >= self.away_until
        if self.chance("away") and is_here:
            self._go_away(self.random.choice((2.0, 20.0, 90.0)))
        if self.chance("clock"):
            self._step_clock()
        if self.chance("replicate") and is_here:
            self.store.reap(max_deliveries=None)
            self.replica, self.replica_early = list(self.engine.dump()), frozenset(self.early)
            self.note("a replica has everything")
        if self.replica and self.chance("lost writes") and is_here:
            self._lose_writes()

    def _go_away(self, seconds: float) -> None:
        """No worker can renew; so leases outlive an outage that is longer than half of them."""
        self.away_until = self.now + seconds
        self.note(f"the store is away until {self.away_until:.2f}")
        for run in self.live():
            if seconds > LEASE_SECONDS / 2 and not run.is_spared:
                run.deadline, run.is_spared = self.away_until + LEASE_SECONDS, True

    def _deliver(self, make: Callable[[], object], answer: object) -> None:
        if self.now < self.away_until:
            return
        try:
            made = make()
            if isinstance(made, Claimed) and isinstance(answer, Claimed):
                fences = [{lease.fence for lease in one.leases} for one in (made, answer)]
                self.require(fences[0] <= fences[1], "a late copy has claimed more")
            if isinstance(made, str):
                self.require(made == answer, "a late copy has kept a step")
        except (LeaseLost, CapacityExceeded):
            pass
        except FairQueueError as error:
            self.require("came after a later one" in f"{error}", f"a late copy: {error}")

    def _step_clock(self) -> None:
        """The server's clock jumps; what is repeated beyond a jump forward may not be known."""
        seconds = self.random.choice((600.0, -5.0, -600.0))
        self.note(f"the server's clock moves by {seconds:g} s")
        if seconds > 0:
            self.clock.advance(seconds)
            self.loose |= self.pending
        else:
            self.clock.set_back(-seconds)
        if seconds > 0 or self.now < self.away_until:  # it looks like an outage, or hides one
            for run in (run for one in self.processes for run in one.runs.values()):
                self.loose.add(run.lease.job.id)
                run.old, run.is_spared = run.old or run.is_spared, run.is_spared or seconds > 0
        self.late, self.replica = [], []

    def _lose_writes(self) -> None:
        """The replica takes over: what came since is lost, and may come again."""
        self.note("a replica takes over")
        self.clock.advance(0.01)  # fences are times
        restore(self.engine, self.replica)
        self.store.reap(max_deliveries=None)
        here = self.records()
        self.must &= here | self.over
        self.loose |= here | self.pending
        self.over -= here - self.replica_early
        self.done -= here
        self.late, self.replica, self.ticks_are_certain = [], [], False
        for process in self.processes:
            for run in process.runs.values():
                run.old = True
                self.loose.add(run.lease.job.id)

    def records(self) -> set[str]:
        """Ids of the jobs that are here."""
        found = Keyspace(self.engine).all("jobs")
        return {decode_job(job) for _, of in found for job in of}

    # The course

    def step(self) -> None:
        """Let time pass, and one user make a step."""
        self.steps += 1
        seconds = self.random.expovariate(1 / 0.05)
        self.now += seconds
        self.clock.advance(seconds)
        awake = [
            actor for one in self.processes for actor in one.actors if one.asleep_until <= self.now
        ]
        next(self.random.choice([*awake, *(() if self.is_calm else self.others)]))
        self._disturb()

    def drain(self) -> None:
        """Let the faults end: everything that is left must run, and no tick be lost."""
        self.is_calm, self.late = True, []
        self.note("the faults end")
        self.processes.append(self._process())
        self.processes[-1].queues = QUEUES
        until = self.now + DRAIN_SECONDS
        while self.records() or any(process.runs for process in self.processes):
            self.require(self.now < until, f"stuck: {sorted(self.records())[:5]}")
            for _ in range(200):
                self.step()
        lost = self.must - self.over
        self.require(not lost, f"jobs are lost: {sorted(lost)}")
        for workspace in IN_GROUP:
            found = sorted(at for name, at in self.ticks if name == workspace)
            between = [b - a for a, b in pairwise(found)]
            missed = [seconds for seconds in between if seconds != EVERY_SECONDS]
            self.require(not missed or not self.ticks_are_certain, f"ticks are lost: {found}")
