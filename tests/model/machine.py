"""The same random moves on both engines and on the model, compared after every step."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest
import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition

from fairqueue import (
    CapacityExceeded,
    ConfigurationError,
    FairQueueError,
    Job,
    JobId,
    Lease,
    LeaseLost,
    Limits,
    Outcome,
    Pause,
    Why,
)
from fairqueue._keys import decode
from fairqueue._stores import replies
from fairqueue._stores.engine import Engine, Entry
from fairqueue._stores.library import read_source
from fairqueue._stores.limits_text import configured
from fairqueue._stores.memory import Database, MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import (
    Admission,
    Claimed,
    Ending,
    Finish,
    Placed,
)
from fairqueue.audit.checks import findings
from fairqueue.audit.keyspace import Keyspace
from fairqueue.audit.view import Audit
from fairqueue.errors import UniqueKeyHeld
from fairqueue.operate.dead import DeadLetters
from fairqueue.operate.jobs import signal_running
from fairqueue.rows import DeadFilter
from fairqueue.schedules._ticker import PUT_BY_CALL
from fairqueue.schedules._ticker import _due as due_tick
from fairqueue.schedules._timing import Schedule
from fairqueue.testing import ManualClock
from tests.lost_writes import restore
from tests.model.accounts import Accounts
from tests.model.model import MAX_DELIVERIES, Model
from tests.model.tally import note_limits, rule
from tests.operators import operators_of
from tests.redis_scores import score_text_of
from tests.small_pages import with_small_pages

WORKSPACES = st.sampled_from(["a", "b", "c", "d: {*}\n", "default"])
QUEUES = st.sampled_from(["q1", "q2 🦊"])
SOME_QUEUES = st.sampled_from([("q1",), ("q2 🦊",), ("q1", "q2 🦊"), ("q2 🦊", "q1", "q3")])
TASKS = st.sampled_from(["t1", "t2", ""])
LEASE_SECONDS = {"w1": 30.0, "w2": 60.0, "w 3": 9.0}
OWNERS = st.sampled_from(sorted(LEASE_SECONDS))
SECONDS = st.sampled_from([0.0, 0.0003, 0.02, 1.0, 7.5, 40.0])
PAUSES = st.sampled_from([0.001, 0.1, 0.5, 1.0, 4.0, 9.9])
COUNTS = st.sampled_from([None, None, None, 0, 1, 2, 3])
LIMITS = st.builds(
    Limits,
    concurrency=COUNTS,
    capacity=st.sampled_from([None, None, None, 0, 3, 9]),
    weight=st.sampled_from([None, 0.5, 1.0, 3.0]),
    rate=st.sampled_from([None, None, None, 0.5, 4.0]),
    burst=st.sampled_from([None, 1.0, 3.0]),
    reserve=st.sampled_from([None, None, None, 0, 1, 2]),
)
GROUPS = st.sampled_from([None, None, "org", "a"])
TASK_LIMITS = st.builds(
    Limits,
    concurrency=st.sampled_from([None, 0, 1, 2, 3]),
    workspace_concurrency=COUNTS,
    rate=st.sampled_from([None, None, 0.5, 4.0]),
    burst=st.sampled_from([None, 1.0, 3.0]),
    workspace_rate=st.sampled_from([None, None, 0.5, 4.0]),
    workspace_burst=st.sampled_from([None, 1.0, 3.0]),
)
SHARED_LIMITS = st.builds(
    Limits,
    concurrency=st.sampled_from([3, 1, 0, None]),
    capacity=st.sampled_from([9, 3, 0, None]),
)
NO_LIMITS = st.just(Limits())
RULES: dict[str, st.SearchStrategy[Any]] = {
    "exempt": st.sampled_from([False, False, False, True]),
    "group": st.sampled_from([None, None, "g1", "g2"]),
    "unique_key": st.sampled_from([None, None, None, "k 1", "k:2"]),
    "unique_for": st.sampled_from([None, None, 0.5, 30.0]),
    "is_new": st.booleans(),
}
PUBLISHES = st.tuples(
    st.builds(
        Job,
        id=st.just(""),
        workspace=WORKSPACES,
        queue=QUEUES,
        task=TASKS,
        payload=st.binary(max_size=3),
        priority=st.sampled_from([0, 0, 0, 3, 10]),
        expires_seconds=st.sampled_from([None, None, None, 0.0, 5.0, 60.0]),
        delay_seconds=st.sampled_from([0.0, 0.0, 0.0, 0.0, 0.5, 20.0]),
    ),
    st.fixed_dictionaries(RULES).map(lambda rules: Admission(**rules)),
)
LATE = 2  # the second call is the first with an earlier number
MOST_HELD = 9  # so that one sweep reaps all that have ended
MOST_DUE = 8  # that a claim may find: it has few steps, and the model has no pages


class Moves(RuleBasedStateMachine):
    """Producers, workers and an operator make any call at any time.

    With ``many_flows`` those of a workspace follow it one by one.
    """

    def __init__(self, client: redis.Redis, namespace: str, *, many_flows: bool = False) -> None:
        super().__init__()
        self.clock = ManualClock()
        database = Database(score_text=score_text_of(client))
        self.engines: tuple[Engine, ...] = (
            MemoryEngine(
                database,
                namespace=namespace,
                read=_with_many_flows if many_flows else _as_it_is,
            ),
            RedisEngine(
                client, namespace=namespace, read=_with_many_flows if many_flows else _as_it_is
            ),
        )
        self.many_flows = many_flows
        self.stores = [Store(engine, clock=self.clock) for engine in self.engines]
        self.model = Model(self.clock())
        self.accounts = Accounts()
        self.numbers: dict[str, int] = defaultdict(int)
        self.numbered: dict[str, float] = {}
        self.last_claim: dict[str, tuple[dict[str, Any], tuple[Lease, ...]]] = {}
        self.seen: list[Lease] = []
        self.published: list[Job] = []
        self.serial = count(1)
        self.replica: tuple[list[list[Entry]], Model] | None = None

    def both(self, act: str | Callable[[Store], Any], *args: Any, **values: Any) -> Any:
        """Call a method of both stores, or this function; their answers must be equal."""
        one, other = (self._answer(store, act, *args, **values) for store in self.stores)
        if isinstance(other, Exception):
            assert (type(one), str(one)) == (type(other), str(other))
            raise other
        assert one == other
        return other

    def _answer(
        self, store: Store, act: str | Callable[[Store], Any], *args: Any, **values: Any
    ) -> Any:
        try:
            return getattr(store, act)(*args, **values) if isinstance(act, str) else act(store)
        except FairQueueError as error:
            return error

    def number(self, owner: str) -> int:
        """Return the owner's next number."""
        self.numbers[owner] += 1
        self.numbered[owner] = self.model.now
        self.last_claim.pop(owner, None)
        return self.numbers[owner]

    def _is_kept(self, owner: str) -> bool:
        """Whether the store surely has the owner's last number: it keeps it for ten leases."""
        return self.model.now - self.numbered[owner] < 9 * LEASE_SECONDS[owner]

    def fences(self, data: st.DataObject, owner: str, most: int = 4) -> list[int]:
        """Draw some fences, those that the owner holds first, each once."""
        leases = self.model.leases
        mine = sorted(fence for fence, held in leases.items() if held.owner == owner)
        others = [fence for fence in sorted(leases) if fence not in mine][-2:]
        known = mine + others + [lease.fence for lease in self.seen[-3:]] + [10**6]
        return data.draw(st.lists(st.sampled_from(known), max_size=most, unique=True))

    # Producers

    @initialize(
        fairness=st.sampled_from(["time", "time", "count"]),
        default=NO_LIMITS | NO_LIMITS | LIMITS,
        enforced=st.sampled_from([True, True, True, False]),
    )
    def begin(self, fairness: str, default: Limits, enforced: bool) -> None:
        """Store the configuration of the first process."""
        self._configure(default, {}, fairness, enforced=enforced)

    @rule(batch=st.lists(PUBLISHES, min_size=1, max_size=6))
    def publish(self, batch: list[tuple[Job, Admission]]) -> None:
        """Publish new jobs."""
        for job, admission in batch:
            self._publish(self._numbered(job), admission)

    def _numbered(self, job: Job) -> Job:
        """Give a new job an id, and times that no other job has."""
        n = next(self.serial)
        delay = job.delay_seconds + n / 4096 if job.delay_seconds else 0.0
        expires = job.expires_seconds and job.expires_seconds + n / 4096
        return replace(job, id=f"j {n}", delay_seconds=delay, expires_seconds=expires)

    @rule(batch=st.lists(PUBLISHES, min_size=1, max_size=6))
    def publish_more(self, batch: list[tuple[Job, Admission]]) -> None:
        """Publish many jobs."""
        self.publish(batch)

    @rule(batch=st.lists(PUBLISHES, min_size=2, max_size=6), data=st.data())
    def publish_together(self, batch: list[tuple[Job, Admission]], data: st.DataObject) -> None:
        """Publish new jobs, and perhaps a known one, in one call on Redis, singly in memory.

        Of many flows a call reads those which it is about, and writes them last: calls for one job
        each would leave them in another order. So with ``many_flows`` both make the one call.
        """
        pairs = [(self._numbered(job), how._replace(group=None)) for job, how in batch]
        if self.published:
            again = data.draw(st.lists(st.sampled_from(self.published[-6:]), max_size=1))
            pairs += [(job, Admission()) for job in again]
        self._settle_what_is_due()
        memory, redis = self.stores
        done = redis.publish_many(pairs)
        others: Sequence[JobId | Exception]
        if self.many_flows:
            others = memory.publish_many(pairs)
        else:
            others = [self._answer(memory, "publish", *pair) for pair in pairs]
        for (job, admission), one, other in zip(pairs, done, others, strict=True):
            if isinstance(one, Exception):
                assert (type(one), str(one)) == (type(other), str(other))
            else:
                assert one == other
            self._judge(job, admission, one, admitted=admission.exempt)
        self._drop_early_tokens({job.queue for job, _ in pairs})
        self._drop_names_of_queues()

    def _drop_early_tokens(self, queues: set[str]) -> None:
        """Let both engines have the token for what is due early.

        Of single publishes the next one takes it away where nothing can start, since an owner that
        waits has it by then.
        """
        for queue in queues:
            token = self.engines[0].keys.key("token", queue)
            if [engine.command("LLEN", token) for engine in self.engines] == [0, 1]:
                self.engines[1].command("DEL", token)

    def _drop_names_of_queues(self) -> None:
        """Let neither engine have their list, which the next call that needs it writes again.

        A call that makes a queue drops it. A single publish behind that may have needed it.
        """
        for engine in self.engines:
            engine.command("HDEL", engine.keys.key("shard"), "queues")

    @rule(batch=st.lists(PUBLISHES, min_size=2, max_size=6))
    def publish_a_group(self, batch: list[tuple[Job, Admission]]) -> None:
        """Publish new jobs of one group in one call: all are accepted, or all refused."""
        name = f"whole {next(self.serial)}"
        pairs = [
            (self._numbered(job), how._replace(group=name, unique_key=None)) for job, how in batch
        ]
        self._settle_what_is_due()
        done = self.both(lambda store: _plain_errors(store.publish_many(pairs)))
        counted = [job for job, how in pairs if not how.exempt]
        full = self.model.full_for(counted)
        if full is not None:
            assert {outcome[0] for outcome in done} == {full}
            return
        has_capacity = bool(self.look().space.of("limits_with", "capacity"))
        self.model.admit(name, has_capacity=has_capacity)
        self.model.let_in(counted)
        self.model.observe_publishes(counted)
        for (job, _), (scope, is_new) in zip(pairs, done, strict=True):
            assert (scope, is_new) == (None, True)
            self.model.publish(job)
            self.published.append(job)

    def _settle_what_is_due(self) -> None:
        """Due timers may reach a workspace with a publish or with the next sweep."""
        now = self.look()
        if now.draining or min(now.space.one("timer", {}).values(), default=now.now + 1) <= now.now:
            self.reap()

    def _publish(self, job: Job, admission: Admission) -> None:
        self._settle_what_is_due()
        admitted = self.model.is_admitted(admission)
        if admitted is None:
            return
        done: JobId | Exception
        try:
            done = self._sent(job, admission)
        except CapacityExceeded as refused:
            done = refused
        self._judge(job, admission, done, admitted=admitted)

    def _sent(self, job: Job, admission: Admission) -> JobId:
        done: JobId
        done, _ = self.both(lambda store: _with_outcome(store.publish(job, admission)))
        return done

    def _judge(
        self, job: Job, admission: Admission, done: JobId | Exception, *, admitted: bool
    ) -> None:
        """Compare what became of a publish with the model, and note it there."""
        full, known = self.model.full(job), self.model.is_known(job)
        holder = self.model.holder(job, admission.unique_key)
        if isinstance(done, Exception):
            assert isinstance(done, CapacityExceeded), done
            found = (done.scope, admitted, bool(known))
            assert found == (full, False, False), (job, known)
            self.model.refuse(job, done.scope)
            return
        new = done.is_new
        assert (done.outcome is Outcome.EXISTING) == (done != job.id)
        if done.outcome is Outcome.EXISTING:
            assert done == holder
            return
        assert known is None or new is not known
        assert not new or admitted or full is None
        if new:
            assert holder is None
            self.model.hold_key(job, admission.unique_key, admission.unique_for)
            if not admitted:
                self.model.let_in([job])
                self.model.observe_publish(job)
            has_capacity = bool(self.look().space.of("limits_with", "capacity"))
            self.model.admit(admission.group, has_capacity=has_capacity)
            self.model.publish(job, admission.unique_key)
            self.published.append(job)

    @rule(workspace=WORKSPACES, name=st.sampled_from(["s 1", "s2"]), every=st.integers(1, 40))
    def put_schedule(self, workspace: str, name: str, every: int) -> None:
        """Put a schedule, or the same again, or another one under its name."""
        placed = Placed("core", workspace, name, "t1", {})
        self.both(lambda store: placed.put(store, Schedule(every=every, spread=3), PUT_BY_CALL))

    @rule(
        workspace=WORKSPACES,
        name=st.sampled_from(["s 1", "s2"]),
        how=st.sampled_from(["pause", "resume", "trigger", "remove"]),
    )
    def change_schedule(self, workspace: str, name: str, how: str) -> None:
        """Change a schedule that may be there."""
        self.both("change_schedule", workspace, name, how)

    @rule(n=st.integers(1, 3), queue=QUEUES, key=st.sampled_from([None, "k 1"]))
    def publish_ticks(self, n: int, queue: str, key: str | None) -> None:
        """Publish what is due, twice: the second of two processes stores nothing."""
        self._settle_what_is_due()
        _, _, due = self.both("due_schedules", ("core",), n)
        for row in due:
            now = self.look().now
            tick = due_tick(row, now, "store").tick
            if tick.at is None:
                self.both("change_schedule", row.workspace, row.name, "advance", tick)
                continue
            job = Job(f"j {next(self.serial)}", row.workspace, queue, "t1", b"")
            admission = Admission(unique_key=key, tick=tick)
            before = len(self.published)
            self._publish(job, admission)
            if len(self.published) > before:
                at = (row.workspace, row.name, tick.at)
                assert at not in self.model.ticks
                self.model.ticks.add(at)
                again = replace(job, id=f"j {next(self.serial)}")
                done = self._sent(again, admission)
                assert done.outcome is Outcome.REPEATED

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        """Repeat a publish, as after a lost reply."""
        self._publish(data.draw(st.sampled_from(self.published[-6:])), Admission())

    @rule(data=st.data(), workspace=WORKSPACES, queue=QUEUES)
    def publish_as_a_child(self, data: st.DataObject, workspace: str, queue: str) -> None:
        """Publish from a running job, perhaps after it lost its lease."""
        for parent in self.fences(data, "w1", 1):
            job = Job(f"j {next(self.serial)}", workspace, queue, "t1", b"")
            self._settle_what_is_due()
            living = parent in self.model.leases
            try:
                self.both("publish", job, Admission(exempt=True, parent_fence=parent))
            except LeaseLost:
                assert not living
                return
            assert living
            self.model.publish(job)

    # Workers

    @rule(
        owner=OWNERS,
        queues=SOME_QUEUES,
        n=st.integers(0, 4),
        yield_first=st.booleans(),
        acks_early=st.sampled_from([(), (), ("t1",), ("t2", "t1")]),
        data=st.data(),
    )
    def claim(
        self,
        owner: str,
        queues: tuple[str, ...],
        n: int,
        *,
        yield_first: bool,
        acks_early: tuple[str, ...],
        data: st.DataObject,
    ) -> None:
        """Finish some jobs and claim."""
        finishes = self._finishes(data, owner) if data.draw(st.booleans()) else []
        self._claim(owner, queues, n, finishes, yield_first=yield_first, acks_early=acks_early)

    def _claim(
        self,
        owner: str,
        queues: tuple[str, ...],
        n: int,
        finishes: list[Finish],
        *,
        yield_first: bool = False,
        acks_early: Sequence[str] = (),
    ) -> None:
        n = n if len(self.model.leases) < MOST_HELD else 0
        if self.model.due() > MOST_DUE:
            self.reap()
        call = {**self._identity(owner), "queues": queues, "n": n, "finishes": finishes}
        call |= {"yield_first": yield_first, "acks_early": acks_early}
        follows = self._follows()
        claimed = self.both(lambda store: _plain(store.claim(**call)))
        self.model.follows = follows or self._follows()
        leases = claimed.leases
        assert claimed.lost == self._lost(finishes, owner)
        self.model.sweep()
        for lease in leases:
            self.model.started(lease, owner, LEASE_SECONDS[owner], queues)
            assert lease.acked_early == (lease.job.task in acks_early)
        if len(leases) < n:
            self.model.found_no_more(queues)
        self.seen += leases
        self.last_claim[owner] = call, leases

    def _follows(self) -> bool:
        """Whether some flows may have to follow their workspace: the model has none that do."""
        if not self.many_flows:
            return False
        now = self.look()
        return now.draining or any(now.follows(ws) for ws in now.space.workspaces.values())

    def _identity(self, owner: str) -> dict[str, Any]:
        return {
            "owner": owner,
            "number": self.number(owner),
            "lease_seconds": LEASE_SECONDS[owner],
            "max_deliveries": MAX_DELIVERIES,
        }

    def _finishes(self, data: st.DataObject, owner: str) -> list[Finish]:
        endings = st.sampled_from([Ending.ACK, Ending.ACK, Ending.ACK_EARLY])
        fences = self.fences(data, owner)
        drawn = [Finish(fence, data.draw(endings), data.draw(SECONDS)) for fence in fences]
        for finish in drawn:
            if finish.ending is Ending.ACK:
                self._reports(finish.fence, owner, finish.seconds)
        return drawn

    def _reports(self, fence: int, owner: str, seconds: float, *, is_charged: bool = True) -> None:
        if self.model.held(fence, owner) is not None:
            self.accounts.reports(self.look(), fence, seconds, is_charged=is_charged)

    def _lost(self, finishes: Sequence[Finish], owner: str) -> frozenset[int]:
        done = {finish.fence: self.model.finish(finish, owner) for finish in finishes}
        return frozenset(fence for fence, was_held in done.items() if not was_held)

    @rule(owner=OWNERS, queues=SOME_QUEUES)
    def wait_and_claim(self, owner: str, queues: tuple[str, ...]) -> None:
        """Wait and claim, if there is a wake-up token."""
        tokens = {decode(names[0]) for names, _ in self.look().space.all("token")}
        if not tokens & set(queues):
            return
        waiters = [store.waiter(queues) for store in self.stores]
        assert [waiter.wait(5) for waiter in waiters] == [True, True]
        for waiter in waiters:
            waiter.close()
        self._claim(owner, queues, 1, [])

    @precondition(lambda self: any(map(self._is_kept, self.last_claim)))
    @rule(data=st.data())
    def claim_again(self, data: st.DataObject) -> None:
        """Repeat a claim: the same number returns the same leases without the ended ones."""
        owners = sorted(filter(self._is_kept, self.last_claim))
        call, leases = self.last_claim[data.draw(st.sampled_from(owners))]
        again = self.both(lambda store: _plain(store.claim(**call))).leases
        living = [lease.fence for lease in leases if lease.fence in self.model.leases]
        assert [lease.fence for lease in again] == living

    @rule(owner=OWNERS)
    def claim_late(self, owner: str) -> None:
        """Claim with a number below the last one, which is refused."""
        if self.numbers[owner] < LATE or not self._is_kept(owner):
            return
        call = {"owner": owner, "number": self.numbers[owner] - 1, "queues": ["q1"], "n": 3}
        call |= {"lease_seconds": LEASE_SECONDS[owner], "max_deliveries": 1}
        with pytest.raises(FairQueueError, match="came after a later one"):
            self.both("claim", **call)

    @rule(owner=OWNERS, times=st.sampled_from([1, 1, 2]), data=st.data())
    def ack(self, owner: str, times: int, data: st.DataObject) -> None:
        """Finish jobs without claiming."""
        finishes, identity = self._finishes(data, owner), self._identity(owner)
        for _ in range(times):
            lost = self.both("ack", finishes=finishes, **identity)
        assert lost == self._lost(finishes, owner)

    @rule(
        owner=OWNERS,
        data=st.data(),
        delay=st.sampled_from([0.0, 0.0, 2.0]),
        counted=st.booleans(),
        seconds=SECONDS,
    )
    def release(
        self, owner: str, data: st.DataObject, delay: float, counted: bool, seconds: float
    ) -> None:
        """Release a job."""
        for fence in self.fences(data, owner, 1):
            self._release(fence, owner, delay, seconds, counted=counted)

    @precondition(lambda self: self.model.leases)
    @rule(data=st.data(), is_woken=st.booleans(), seconds=SECONDS)
    def suspend(self, data: st.DataObject, is_woken: bool, seconds: float) -> None:
        """Suspend a task that waits for its children, of which one may have ended by then."""
        fence = data.draw(st.sampled_from(sorted(self.model.leases)))
        held = self.model.leases[fence]
        self._note_step(fence)
        if is_woken:
            self._wake_parent(held.kept.job.workspace)
        self._release(fence, held.owner, 30.0, seconds, counted=False, waits=True)

    @precondition(lambda self: self.model.steps)
    @rule(data=st.data())
    def wake_parent(self, data: st.DataObject) -> None:
        """Tell a task that one of its children has ended, wherever it is."""
        self._wake_parent(data.draw(st.sampled_from(sorted(self.model.steps))))

    def _wake_parent(self, workspace: str) -> None:
        self._settle_what_is_due()
        self.both("wake_parent", workspace, "task")
        self.model.wake_parent(workspace)

    def _release(
        self,
        fence: int,
        owner: str,
        delay: float,
        seconds: float,
        *,
        counted: bool,
        waits: bool = False,
    ) -> None:
        self._reports(fence, owner, seconds, is_charged=counted or seconds > 0)
        due = delay + next(self.serial) / 4096 if delay else 0.0
        how: dict[str, Any] = {"delay_seconds": due, "counted": counted, "seconds": seconds}
        end = replies.released(fence, **how, waits="task" if waits else "")
        lost = self.both("ack", finishes=[end], **self._identity(owner))
        assert (not lost) == self.model.release(fence, owner, due, counted=counted, waits=waits)

    def _note_step(self, fence: int) -> None:
        """Keep a step's value: of the newest run of its task only, and the first one."""
        held, step = self.model.leases.get(fence), f"s{fence // 64}"
        name = held.kept.job.workspace if held else "a"
        of, line = (fence, name, "task", step), f"{step} 1 {fence}"
        kept = self.both("note_step", *of, line, early=False)
        assert kept == self.model.note_step(fence, name, step, line)

    @rule(owner=OWNERS, data=st.data(), seconds=SECONDS)
    def reject(self, owner: str, data: st.DataObject, seconds: float) -> None:
        """Reject a job."""
        for fence in self.fences(data, owner, 1):
            self._reports(fence, owner, seconds)
            end = replies.rejected(fence, reason="it is\nbad", seconds=seconds)
            lost = self.both("ack", finishes=[end], **self._identity(owner))
            assert (not lost) == self.model.reject(fence, owner)

    @rule(owner=OWNERS, data=st.data(), seconds=SECONDS)
    def renew(self, owner: str, data: st.DataObject, seconds: float) -> None:
        """Renew leases."""
        fences = self.fences(data, owner, 8)
        progress = [(fence, seconds) for fence in fences]
        length = LEASE_SECONDS[owner]
        renewed = self.both("renew", progress, owner=owner, lease_seconds=length)
        assert renewed == self.model.renew(fences, owner, length)
        for fence in fences[:2]:
            self._note_step(fence)

    # Time

    @rule(seconds=PAUSES | PAUSES | st.sampled_from([16.0, 70.0, 200.0]))
    def pause(self, seconds: float) -> None:
        """Let some time pass, or enough for an outage."""
        self.clock.advance(seconds)
        self.model.now = self.look().now

    @precondition(lambda self: self.accounts.beat > 0)
    @rule(seconds=st.sampled_from([0.25, 20.0, 3600.0]))
    def set_the_clock_back(self, seconds: float) -> None:
        """Set the server's clock back; the shard's clock stands still until a script writes."""
        self.clock.set_back(seconds)
        self.model.now = self.look().now

    @rule()
    def reap(self) -> None:
        """Wait until the next poll of an idle claimer, which goes on until nothing is due."""
        moved = 0
        while more := self.both("reap", max_deliveries=MAX_DELIVERIES):
            moved += more
        assert moved == self.model.sweep()

    @rule(beats=st.integers(1, 4))
    def pass_time(self, beats: int) -> None:
        """Let leases expire while the store is in use."""
        for _ in range(beats):
            self.pause(10.0)
            self.reap()

    # Lost writes

    @rule()
    def replicate(self) -> None:
        """Keep the state, as a replica has it that lags behind from now on."""
        self.replica = [list(engine.dump()) for engine in self.engines], deepcopy(self.model)

    @precondition(lambda self: self.replica)
    @rule()
    def promote(self) -> None:
        """Lose what was written since; new processes know no more than the store does."""
        replica, self.replica = self.replica, None
        assert replica
        before, last_fence = self.look().now, self.model.last_fence
        for engine, entries in zip(self.engines, replica[0], strict=True):
            restore(engine, entries)
        self.stores = [Store(engine, clock=self.clock) for engine in self.engines]
        self.clock.advance(0.5)
        self.model = replica[1]
        self.model.now = self.look().now
        if self.model.now > before:  # else the clock went back as well, and fences may come twice
            self.model.last_fence = last_fence
        self.accounts = Accounts()
        for owner in list(self.numbers):  # a number above the last one that the store knows
            self.both("ack", finishes=[], **self._identity(owner))

    # Operators

    @rule(
        default=LIMITS,
        workspaces=st.dictionaries(WORKSPACES, LIMITS, max_size=2),
        tasks=st.dictionaries(TASKS, TASK_LIMITS, max_size=1),
        parent=GROUPS,
        provided=st.booleans(),
        enforced=st.sampled_from([True, True, True, False]),
        authoritative=st.booleans(),
    )
    def another_configuration(
        self,
        default: Limits,
        workspaces: dict[str, Limits],
        tasks: dict[str, Limits],
        parent: str | None,
        provided: bool,
        enforced: bool,
        authoritative: bool,
    ) -> None:
        """Store the configuration of a process with other limits."""
        fairness = self.model.boot.fairness if self.model.boot else "time"
        grouped = {name: replace(limits, parent=parent) for name, limits in workspaces.items()}
        how = {"provided": provided, "enforced": enforced, "authoritative": authoritative}
        self._configure(default, grouped, fairness, tasks, **how)

    def _configure(
        self,
        default: Limits,
        workspaces: dict[str, Limits],
        fairness: str,
        tasks: dict[str, Limits] | None = None,
        *,
        provided: bool = True,
        enforced: bool = True,
        authoritative: bool = False,
    ) -> None:
        limits = StoredLimits(
            default=replace(default, reserve=None),
            workspaces=workspaces,
            fairness=fairness,
            tasks=tasks or {},
            provided=provided,
            enforced=enforced,
        )
        boot, brought = self.model.boot, dict(configured(limits))
        stored = dict(configured(boot)) if boot else {}
        same = self.both("configure", limits, authoritative=authoritative)
        assert same == (brought == stored or not stored or authoritative)
        if same:
            self._note_configured(limits)
            observed, self.model.boot = self.model.observes, limits
            self.model.forget_starts()
            if observed != self.model.observes:
                self.model.observed.clear()
            if not provided and brought != stored:
                self.model.given.clear()

    @rule(
        scope=st.sampled_from(["workspace", "workspace", "workspace", "default"]),
        workspace=WORKSPACES,
        limits=st.none() | LIMITS,
    )
    def set_limits(self, scope: str, workspace: str, limits: Limits | None) -> None:
        """Set or remove runtime limits."""
        if limits is not None and scope == "default":
            limits = replace(limits, reserve=None)
        self._set(scope, workspace if scope == "workspace" else "", limits)

    @rule(queue=QUEUES, limits=SHARED_LIMITS | SHARED_LIMITS | st.none())
    def set_limits_of_queue(self, queue: str, limits: Limits | None) -> None:
        """Set runtime limits of a queue."""
        self._set("queue", queue, limits)

    @rule(limits=SHARED_LIMITS | SHARED_LIMITS | st.none())
    def set_limits_of_all(self, limits: Limits | None) -> None:
        """Set runtime limits of the total."""
        self._set("total", "", limits)

    @rule(task=TASKS, limits=st.none() | TASK_LIMITS | TASK_LIMITS | TASK_LIMITS)
    def set_limits_of_task(self, task: str, limits: Limits | None) -> None:
        """Set or remove runtime limits of a task."""
        self._set("task", task, limits)

    @rule(workspace=WORKSPACES, parent=GROUPS)
    def join_a_group(self, workspace: str, parent: str | None) -> None:
        """Move a workspace to a group, or remove its runtime limits and its group."""
        self._set("workspace", workspace, Limits(parent=parent) if parent else None)

    @rule(limits=LIMITS)
    def set_limits_of_group(self, limits: Limits) -> None:
        """Set runtime limits of a group."""
        self._set("workspace", "org", limits)

    def _set(self, scope: str, name: str, limits: Limits | None) -> None:
        try:
            self.both("set_limits", scope, name, limits)
        except ConfigurationError:
            assert self.model.is_too_high(name, limits)
            return
        assert not self.model.is_too_high(name, limits)
        note_limits(scope, limits)
        self.model.set_live(scope, name, limits)

    def _note_configured(self, limits: StoredLimits) -> None:
        note_limits("default", limits.default)
        for of in limits.workspaces.values():
            note_limits("workspace", of)
        for of in limits.tasks.values():
            note_limits("task", of)

    @rule(workspace=WORKSPACES | st.just("org"), limits=LIMITS | LIMITS | st.none(), parent=GROUPS)
    def put_provider_limits(
        self, workspace: str, limits: Limits | None, parent: str | None
    ) -> None:
        """Store the answer of a limit provider; no other answer is forgotten yet."""
        said = limits and replace(limits, parent=parent)
        new = self.both("put_provider_limits", workspace, said, keep_seconds=1e9)
        assert new == self.model.give(workspace, said)
        note_limits("given", said)

    @rule(queue=QUEUES, kind=st.sampled_from([None, True, False]))
    def purge_or_declare(self, queue: str, kind: bool | None) -> None:
        """Purge a queue, or declare its kind."""
        if kind is None:
            self._purge(queue, None)
        else:
            self.both("declare", queue, plain=kind)
            assert self.both("is_plain", queue) is kind

    @rule(task=st.sampled_from(["t1", "t2"]), queue=st.none() | QUEUES)
    def purge_task(self, task: str, queue: str | None) -> None:
        """Purge a task."""
        self._purge(queue, None, task)

    def _purge(
        self,
        queue: str | None,
        workspace: str | None,
        task: str | None = None,
        *,
        cancelled: bool = False,
    ) -> None:
        how = {"cancelled": cancelled}
        dropped = self.both(lambda store: sum(store.purge(queue, workspace, task, **how)))
        assert dropped == self.model.purge(queue, workspace, task, **how)

    @rule(data=st.data(), queue=st.none() | QUEUES)
    def cancel(self, data: st.DataObject, queue: str | None) -> None:
        """Cancel jobs, some of which may have ended."""
        some = [*self.published[-8:], *(held.kept.job for held in self.model.leases.values())]
        for job in data.draw(st.lists(st.sampled_from(some), max_size=2)) if some else ():
            of = None if queue is None else job.queue
            assert self.both(_jobs("cancel", job.id, queue=of)) == self.model.cancel(job.id)

    @precondition(lambda self: self.published)
    @rule(data=st.data(), queue=QUEUES)
    def withdraw(self, data: st.DataObject, queue: str) -> None:
        """Withdraw a job, if it waits."""
        job = data.draw(st.sampled_from(self.published[-8:]))
        found = self.both(_jobs("withdraw", job.id, queue=queue))
        assert (found and found.id) == self.model.withdraw(job.id, queue)

    @rule(workspace=WORKSPACES, running=st.booleans())
    def cancel_workspace(self, workspace: str, running: bool) -> None:
        """Cancel the waiting or the running jobs of a workspace."""
        if not running:
            self._purge(None, workspace, cancelled=True)
            return
        names = {"workspace": workspace}
        signalled = self.both(lambda store: len([*signal_running(store, names)]))
        assert signalled == self.model.cancel_running(workspace)

    @rule(
        workspace=WORKSPACES,
        one=st.booleans(),
        drop=st.sampled_from([False, False, True]),
        spacing=st.sampled_from([0.0, 0.0, 1.0]),
    )
    def replay_or_drop(self, workspace: str, one: bool, drop: bool, spacing: float) -> None:
        """Replay or drop dead letters."""
        letters = self.both("dead_letters", workspace)
        assert {each.job.id for each in letters} == set(self.model.letters[workspace])
        for letter in letters:
            self.model.check_dead_letter(letter)
        job_id = letters[len(letters) // 2].job.id if one and letters else None
        chosen = DeadFilter(workspace, job_id or "")
        if drop:
            dropped = self.both(lambda store: DeadLetters(lambda: store).purge(chosen))
            assert dropped == self.model.purge_dead(workspace, job_id)
            return
        spacing += next(self.serial) / 4096 if spacing else 0.0
        rate = 1 / spacing if spacing else None
        done = self.both(lambda store: _replayed(store, chosen, rate))
        order = [each.job.id for each in letters]
        assert done == self.model.replay(workspace, job_id, order, spacing)

    @rule(queues=SOME_QUEUES, n=st.integers(1, 3), reported=st.booleans())
    def report_failures(self, queues: tuple[str, ...], n: int, reported: bool) -> None:
        """Take failure notices, and drop them unless the worker dies before that."""
        taken = self.both("take_failure_notices", queues, n=n, hold_seconds=5.0)
        self.model.take_failure_notices(queues, n, 5.0, taken)
        if reported:
            dropped = self.both("drop_failure_notices", taken)
            assert dropped == self.model.drop_failure_notices(taken)

    @rule(
        scope=st.sampled_from(["workspace", "workspace", "task", "task", "queue", "total"]),
        workspace=WORKSPACES,
        queue=QUEUES,
        task=TASKS,
        how=st.sampled_from([None, None, Pause.PAUSED, Pause.DRAINING]),
    )
    def pause_or_resume(
        self, scope: str, workspace: str, queue: str, task: str, how: Pause | None
    ) -> None:
        """Pause, drain or resume a scope."""
        name = {"workspace": workspace, "queue": queue, "task": task}.get(scope, "")
        before = self.both("pause", scope, name, how)
        assert before == self.model.pause(scope, name, how)
        assert self.both(_paused) == self.model.pauses

    @rule(workspace=WORKSPACES, data=st.data())
    def ask_why(self, workspace: str, data: st.DataObject) -> None:
        """Ask why a workspace or a job waits; the model knows the blockers."""
        self.both("why", workspace=workspace, job_id=None, queue=None)
        some = [job.id for job in self.published[-12:]]
        for job_id in data.draw(st.lists(st.sampled_from(some), max_size=3)) if some else ():
            why = self.both(partial(_why, job_id))
            self.model.check_why(job_id, why)

    # After every step

    def look(self) -> Audit:
        """Return a view of the keys, which are the same on both engines."""
        return Audit(Keyspace(self.engines[0]), self.clock())

    @invariant()
    def engines_and_model_agree(self) -> None:
        """Both engines have the same keys, the model agrees, and the invariants hold."""
        self.model.check(self.both("snapshot"), self.both("queues"))
        memory, redis = ({entry.key: entry for entry in engine.dump()} for engine in self.engines)
        keys = [key for key in memory.keys() | redis.keys() if memory.get(key) != redis.get(key)]
        assert not keys, [(memory.get(key), redis.get(key)) for key in keys]
        now = self.look()
        # a lowered limit drains, and the model has checked that no start exceeded a limit
        found = [finding for finding in findings(now) if finding.invariant != "I2"]
        assert found == [], found
        self.accounts.judge(now)

    def teardown(self) -> None:
        """Delete the keys on the server."""
        _, engine = self.engines
        keys = [entry.key for entry in engine.dump()]
        if keys:
            engine.command("DEL", *keys)
        engine.close()


# Functions of the module, since the library is loaded once for each way of reading them.
def _as_it_is(file: str) -> str:
    return _without_chance(read_source(file))


def _with_many_flows(file: str) -> str:
    return _without_chance(with_small_pages(file))


def _without_chance(text: str) -> str:
    """Replace random samples by all members, where a script writes."""
    if "HRANDFIELD" not in text or "-- WRITES nothing" in text:
        return text
    every, n = re.subn(r"\b(LOOKED_AT|SAMPLED) = \d+ ", r"\1 = 1000 ", text)
    assert n == 1
    return every


def _paused(store: Store) -> dict[tuple[str, str], Pause]:
    return {(row.scope, row.name): row.state for row in store.pauses()}


def _why(job_id: str, store: Store) -> Why:
    return operators_of(store).views.why(job_id)


def _replayed(store: Store, chosen: DeadFilter, per_second: float | None) -> int | str:
    """Return how many dead letters were replayed, or of a single one the holder of its key."""
    try:
        return DeadLetters(lambda: store).replay_all(chosen, per_second=per_second)
    except UniqueKeyHeld as error:
        return error.holder


def _plain(claimed: Claimed) -> Claimed:
    """Return a reply without this process's clock."""
    leases = tuple(replace(lease, received_monotonic=0.0) for lease in claimed.leases)
    return claimed._replace(leases=leases)


def _with_outcome(published: JobId) -> tuple[JobId, Outcome]:
    """Ids alone are equal whatever became of the publish."""
    return published, published.outcome


def _plain_errors(
    outcomes: Sequence[JobId | FairQueueError],
) -> list[tuple[str | None, bool]]:
    """Return for each publish the scope that refused it, and whether a job was stored."""
    return [
        (one.scope, False)
        if isinstance(one, CapacityExceeded)
        else (None, isinstance(one, JobId) and one.is_new)
        for one in outcomes
    ]


def _jobs(act: str, *args: Any, **values: Any) -> Callable[[Store], Any]:
    return lambda store: getattr(operators_of(store).jobs, act)(*args, **values)
