"""A store that is used at random while commands fail, clocks step, and writes and records are lost.

After each round the faults end. Then no queue may be stuck, every job that still has a record runs
or is a dead letter, and no fence was ever given twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Protocol

from fairqueue import CapacityExceeded, Job, Lease, LeaseLost, Limits, Pause
from fairqueue._keys import decode_job
from fairqueue._stores.engine import Engine, Entry
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Ending, Finish
from fairqueue.audit import audit
from fairqueue.audit.keyspace import Keyspace
from fairqueue.operate.dead import DeadLetters
from fairqueue.rows import DeadFilter
from fairqueue.testing import ManualClock
from tests.contract.world import Worker
from tests.lost_writes import restore
from tests.operators import operators_of

QUEUES = ("q1", "q2")
WORKSPACES = ("a", "b", "c", "d")
GROUP = "org"
TASKS = ("t1", "t2", "t3")
TASK_LIMITS = (
    None,
    Limits(concurrency=1),
    Limits(workspace_concurrency=1),
    Limits(workspace_rate=4.0),
)
OWNERS = ("w1", "w2")
SCOPES: dict[str, tuple[str, ...]] = {
    "workspace": (*WORKSPACES, GROUP),
    "task": TASKS,
    "queue": QUEUES,
    "total": ("",),
}
EARLY = 0.05  # of the finishes
ROUND = 250  # moves between two looks
PATIENCE_SECONDS = 900.0  # until everything must have run: the rebuild rests for 600
PROMISED = {"I2", "I7", "I9", "I12"}


class Deny(Protocol):
    """Decides which commands fail from now on."""

    def __call__(self, number: int | None = None, name: str = "") -> None:
        """One of the next commands, by its number; or all of a name; or none any more."""


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed what the store draws by itself, as how long an idle owner waits."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


class Play:
    """One store with its users, its faults, and what is known of both."""

    def __init__(self, engine: Engine, clock: ManualClock, deny: Deny, seed: int) -> None:
        self.engine, self.clock, self.deny = engine, clock, deny
        self.seed, self.random = seed, Random(seed)
        self.store = Store(engine, clock=clock)
        self.workers = [Worker(self.store, owner) for owner in OWNERS]
        self.held: list[tuple[Worker, Lease]] = []
        self.fences: set[int] = set()
        self.failed: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.replica: list[Entry] = []
        self.latest = 0.0
        """The highest time of this round."""
        self.serial = 0

    # Users

    def publish(self) -> None:
        """Publish a job of any kind."""
        self.store.publish(*self._new_job())

    def publish_many(self) -> None:
        """Publish some jobs in one call."""
        self.store.publish_many([self._new_job() for _ in range(self.random.randint(2, 6))])

    def _new_job(self) -> tuple[Job, Admission]:
        self.serial += 1
        choose = self.random.choice
        job = Job(
            f"j{self.serial}",
            choose(WORKSPACES),
            choose(QUEUES),
            choose(TASKS),
            b"payload",
            choose((0, 0, 0, 5)),
            choose((0.0, 0.0, 0.0, 2.0, 30.0)),
            choose((None, None, None, 3.0)),
        )
        key = choose((None, None, None, "key"))
        return job, Admission(group=choose((None, "g")), unique_key=key)

    def claim(self) -> None:
        """Claim, and finish some of what is held."""
        worker = self.random.choice(self.workers)
        mine = [entry for entry in self.held if entry[0] is worker and self.random.random() < 0.6]
        finishes = [self._finish(lease) for _, lease in mine]
        self._let_time_pass()
        leases = worker.claim(self.random.randint(1, 4), *QUEUES, finishes=finishes).leases
        self.held = [entry for entry in self.held if entry not in mine]
        self._note(worker, leases)

    def _finish(self, lease: Lease) -> Finish:
        """End it; one that is acked early is not run again, whatever becomes of it."""
        early = self.random.random() < EARLY
        if early:
            self.cancelled.add(lease.job.id)
        return Finish(lease.fence, Ending.ACK_EARLY if early else Ending.ACK, 0.5)

    def _note(self, worker: Worker, leases: tuple[Lease, ...]) -> None:
        for lease in leases:
            assert lease.fence not in self.fences, f"fence {lease.fence} was given twice"
            self.fences.add(lease.fence)
            self.held.append((worker, lease))

    def _let_time_pass(self) -> None:
        """Time is never the same in two claims: fences are times."""
        self.clock.advance(self.random.choice((0.001, 0.05, 0.5, 1.0)))

    def give_back(self) -> None:
        """Release or reject one job."""
        if not self.held:
            return
        worker, lease = self.held.pop(self.random.randrange(len(self.held)))
        how = self.random.choice(("release", "late", "counted", "reject"))
        if how == "reject":
            worker.reject(lease)
        else:
            delay = 3.0 if how == "late" else 0.0
            worker.release(lease, delay_seconds=delay, counted=how == "counted")

    def renew(self) -> None:
        """Renew what one worker holds."""
        worker = self.random.choice(self.workers)
        mine = [lease for of, lease in self.held if of is worker]
        lost = worker.renew(*mine, seconds=0.2)
        self.held = [entry for entry in self.held if entry[1].fence not in lost]

    def limit(self) -> None:
        """Set or remove a limit, or a parent."""
        limits = self.random.choice(
            (
                None,
                Limits(concurrency=2),
                Limits(parent=GROUP),
                Limits(weight=3.0),
                Limits(rate=4.0),
            )
        )
        self.store.set_limits("workspace", self.random.choice(SCOPES["workspace"]), limits)

    def limit_task(self) -> None:
        """Set or remove a limit of a task."""
        limits = self.random.choice(TASK_LIMITS)
        self.store.set_limits("task", self.random.choice(TASKS), limits)

    def cancel(self) -> None:
        """Cancel any job."""
        job_id = f"j{self.random.randint(1, max(1, self.serial))}"
        self.cancelled.add(job_id)
        operators_of(self.store).jobs.cancel(job_id)

    def withdraw(self) -> None:
        """Withdraw any job."""
        job_id = f"j{self.random.randint(1, max(1, self.serial))}"
        self.cancelled.add(job_id)
        operators_of(self.store).jobs.withdraw(job_id, queue=self.random.choice(QUEUES))

    def pause(self) -> None:
        """Pause or resume anything."""
        scope = self.random.choice(list(SCOPES))
        how = self.random.choice((Pause.PAUSED, None, None))
        self.store.pause(scope, self.random.choice(SCOPES[scope]), how)

    def limit_all(self) -> None:
        """Set or remove a limit of a queue, or of all jobs together."""
        limits = self.random.choice((None, Limits(concurrency=3), Limits(capacity=40)))
        scope, name = self.random.choice((("total", ""), ("queue", "q1"), ("queue", "q2")))
        self.store.set_limits(scope, name, limits)

    def replay(self) -> None:
        """Publish all dead letters of a workspace again."""
        workspace = self.random.choice(WORKSPACES)
        DeadLetters(lambda: self.store).replay_all(DeadFilter(workspace))

    def adopt(self) -> None:
        """Import the next message of another system's list."""
        self.serial += 1
        source = f"{self.engine.namespace} theirs"
        self.engine.command("LPUSH", source, f"j{self.serial}")
        (message,) = self.engine.command("LRANGE", source, -1, -1)
        choose = self.random.choice
        job = Job(message.decode(), choose(WORKSPACES), choose(QUEUES), choose(TASKS), message)
        assert self.store.import_message(source, job)

    def sweep(self) -> None:
        """Let time pass, and reap."""
        self.clock.advance(self.random.choice((1.0, 10.0, 31.0)))
        self.store.reap(max_deliveries=None)

    # Faults

    def fail_one(self) -> None:
        """Let one of the next commands fail."""
        at = self.random.randint(1, 120)
        self.deny(at)

    def forbid(self) -> None:
        """Forbid one command for a while."""
        names = (
            "ZADD",
            "ZREM",
            "HSET",
            "HDEL",
            "LPOP",
            "RPUSH",
            "SADD",
            "SREM",
            "LRANGE",
            "SET",
            "LPUSH",
            "RPOP",
            "DEL",
            "UNLINK",
            "HINCRBY",
            "ZINCRBY",
            "HSETNX",
        )
        denied = self.random.choice(names)
        self.deny(name=denied)

    def allow(self) -> None:
        """Let every command succeed."""
        self.deny()

    def step_clock(self) -> None:
        """The server's clock jumps, forward or back; what a replica knows of it is too old then."""
        seconds = self.random.choice((3600.0, -5.0, -600.0))
        if seconds > 0:
            self.clock.advance(seconds)
        else:
            self.clock.set_back(-seconds)
        self.replica = []

    def replicate(self) -> None:
        """A replica has everything up to now, also by how much the clock was set back before."""
        self.deny()
        self.store.reap(max_deliveries=None)
        self.replica = list(self.engine.dump())

    def fail_over(self) -> None:
        """Lose every write since then. The clock goes back in a later step, if it does.

        Where both come at once, fences may repeat: see the limits of the promises. So time passes
        between the last claim that is lost and the first script that runs then.
        """
        if self.replica:
            self.deny()
            self._let_time_pass()
            restore(self.engine, self.replica)
            self.store.reap(max_deliveries=None)

    def lose_record(self) -> None:
        """Remove or spoil one record."""
        kind = self.random.choice(("leases", "workspaces", "jobs"))
        queue = self.random.choice(QUEUES)
        key = self.engine.keys.key(kind, queue) if kind == "jobs" else self.engine.keys.key(kind)
        self.deny()
        fields = sorted(self.engine.command("HKEYS", key))
        if fields and self.random.random() < 0.5:
            self.engine.command("HDEL", key, self.random.choice(fields))
        elif fields:
            self.engine.command("HSET", key, self.random.choice(fields), "{}")

    MOVES = (
        *[publish] * 7,
        *[publish_many] * 2,
        *[claim] * 10,
        *[give_back] * 3,
        *[renew, sweep] * 2,
        limit,
        limit_task,
        limit_all,
        pause,
        cancel,
        withdraw,
        replay,
        adopt,
        *[fail_one] * 3,
        forbid,
        *[allow] * 4,
        step_clock,
        replicate,
        fail_over,
        lose_record,
    )

    def play(self, steps: int, errors: type[Exception]) -> None:
        """Make this many moves, and look after each round."""
        with _seeded(self.seed):
            for step in range(1, steps + 1):
                try:
                    self._move(errors)
                    if step % ROUND == 0:
                        self.look()
                except Exception as error:
                    said = f"seed {self.seed}, step {step} of {steps}: {error}"
                    raise AssertionError(said) from error

    def _move(self, errors: type[Exception]) -> None:
        self.latest = max(self.latest, self.clock())
        move = self.random.choice(self.MOVES)
        try:
            move(self)
        except (CapacityExceeded, LeaseLost):
            pass
        except errors as error:
            self.failed[f"{move.__name__}: {error}"] += 1

    # What must hold

    def records(self) -> set[str]:
        """Ids of the jobs that have a record which can be read."""
        space = Keyspace(self.engine)
        found = ((job, text) for _, of in space.all("jobs") for job, text in of.items())
        return {decode_job(job) for job, text in found if text != "{}"}

    def look(self) -> None:
        """End the faults: everything that is left runs, and new jobs do."""
        self.deny()
        self.held = []
        self._open()
        for number, queue in enumerate(QUEUES):
            probe = Job(f"probe{number}-{self.serial}", "probe", queue, "probe", b"")
            self.store.publish(probe, Admission())
        left = self.records()
        done = self.drain()
        dead = {letter.job.id for name in WORKSPACES for letter in self.store.dead_letters(name)}
        lost = left - done - dead - self.cancelled
        assert lost == set(), f"jobs are lost: {sorted(lost)}"
        found = audit(self.engine, now=self.clock())
        broken = [one for one in found if one.invariant in PROMISED]
        assert broken == [], broken
        self.store.drop_set_aside()
        self.replica = []

    def _open(self) -> None:
        """Remove all limits and pauses."""
        for scope, names in SCOPES.items():
            for name in names:
                self.store.set_limits(scope, name, None)
                self.store.pause(scope, name, None)

    def drain(self) -> set[str]:
        """Run everything, however long it waits for time.

        A delay that was set before any beat waits for a clock that went back: see the limits of the
        promises.
        """
        worker, done = Worker(self.store, f"drain{self.serial}"), set[str]()
        until, self.latest = max(self.latest, self.clock()) + PATIENCE_SECONDS, 0.0
        while self.clock() < until:
            self.clock.advance(2.0)
            leases = worker.claim(16, *QUEUES).leases
            done |= {lease.job.id for lease in leases}
            self._note(worker, leases)
            worker.claim(0, *QUEUES, finishes=[Finish(lease.fence) for lease in leases])
            if not any(Keyspace(self.engine).all("jobs")):
                break
        self.held = []
        return done
