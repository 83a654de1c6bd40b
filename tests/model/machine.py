"""The same random moves on both stores and on the model, looked at after every step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition

from fairqueue import (
    Admission,
    Cancelled,
    CapacityExceeded,
    Claimed,
    ConfigurationError,
    Ending,
    FairQueueError,
    Finish,
    Job,
    Lease,
    LeaseLost,
    Limits,
    Outcome,
    Pause,
    Published,
    Stats,
    Store,
    Why,
    WorkspaceStats,
)
from fairqueue._stores.limits_text import configured
from fairqueue._stores.memory import MemoryStore
from fairqueue._stores.memory.state import State
from fairqueue._stores.redis import RedisStore
from fairqueue._stores.redis.audit import findings
from fairqueue._stores.redis.keyspace import Keyspace
from fairqueue._stores.redis.looking import Audit
from fairqueue._types import StoredLimits
from fairqueue.testing import ManualClock
from tests.model.accounts import Accounts
from tests.model.model import LEASE_SECONDS, MAX_DELIVERIES, Model
from tests.model.same import differences
from tests.model.tally import note_limits, rule

T = TypeVar("T")

WORKSPACES = st.sampled_from(["a", "b", "c", "d: {*}\n", "default"])
QUEUES = st.sampled_from(["q1", "q2 🦊"])
SOME_QUEUES = st.sampled_from([("q1",), ("q2 🦊",), ("q1", "q2 🦊"), ("q2 🦊", "q1", "q3")])
TASKS = st.sampled_from(["t1", "t2", ""])
OWNERS = st.sampled_from(["w1", "w2", "w 3"])
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
)
SHARED_LIMITS = st.builds(
    Limits,
    concurrency=st.sampled_from([3, 1, 0, None]),
    capacity=st.sampled_from([9, 3, 0, None]),
)
NO_LIMITS = st.just(Limits())
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
    st.builds(
        Admission,
        exempt=st.sampled_from([False, False, False, True]),
        group=st.sampled_from([None, None, "g1", "g2"]),
        unique_key=st.sampled_from([None, None, None, "k 1", "k:2"]),
        unique_for=st.sampled_from([None, None, 0.5, 30.0]),
    ),
)
LATE = 2  # from the second call on there is an earlier number
MOST_HELD = 24  # a sweep moves 32 at once; the model does not know pages


class Moves(RuleBasedStateMachine):
    """Producers, workers and an operator, who do anything at any time."""

    def __init__(self, client: redis.Redis, namespace: str) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.memory = MemoryStore(clock=self.clock)
        self.redis = RedisStore(client, namespace=namespace, clock=self.clock)
        self.model = Model(self.clock())
        self.accounts = Accounts()
        self.numbers: dict[str, int] = defaultdict(int)
        self.last_claim: dict[str, tuple[dict[str, Any], tuple[Lease, ...]]] = {}
        self.seen: list[Lease] = []
        self.published: list[Job] = []
        self.serial = count(1)

    def both(self, act: Callable[[Store], T]) -> T:
        """Do it on both; they must answer alike."""
        one, other = (self._answer(act, store) for store in (self.memory, self.redis))
        if isinstance(other, Exception):
            assert (type(one), str(one)) == (type(other), str(other))
            raise other
        assert one == other
        return other

    def _answer(self, act: Callable[[Store], T], store: Store) -> T | Exception:
        try:
            return act(store)
        except FairQueueError as error:
            return error

    def number(self, owner: str) -> int:
        """The owner's next number."""
        self.numbers[owner] += 1
        self.last_claim.pop(owner, None)
        return self.numbers[owner]

    def fences(self, data: st.DataObject, most: int = 4) -> list[int]:
        """Some leases, living ones before others, each once."""
        known = sorted(self.model.leases) + [lease.fence for lease in self.seen[-3:]] + [10**6]
        return data.draw(st.lists(st.sampled_from(known), max_size=most, unique=True))

    # Producers

    @initialize(
        fairness=st.sampled_from(["time", "time", "count"]),
        default=NO_LIMITS | NO_LIMITS | LIMITS,
        enforced=st.sampled_from([True, True, True, False]),
    )
    def begin(self, fairness: str, default: Limits, enforced: bool) -> None:
        """The first process brings its configuration."""
        self._configure(default, {}, fairness, enforced=enforced)

    @rule(batch=st.lists(PUBLISHES, min_size=1, max_size=6))
    def publish(self, batch: list[tuple[Job, Admission]]) -> None:
        """New jobs."""
        for job, admission in batch:
            n = next(self.serial)
            delay = job.delay_seconds + n / 4096 if job.delay_seconds else 0.0
            expires = job.expires_seconds and job.expires_seconds + n / 4096
            self._publish(
                replace(job, id=f"j {n}", delay_seconds=delay, expires_seconds=expires), admission
            )

    @rule(batch=st.lists(PUBLISHES, min_size=1, max_size=6))
    def publish_more(self, batch: list[tuple[Job, Admission]]) -> None:
        """Producers are busy."""
        self.publish(batch)

    def _settle_what_is_due(self) -> None:
        """What time brings may reach a workspace by a publish, or by the next sweep."""
        timer = self.state.timer.first()
        if self.state.draining or (timer and timer[0] <= self.clock()):
            self.reap()

    def _publish(self, job: Job, admission: Admission) -> None:
        self._settle_what_is_due()
        admitted = admission.exempt or admission.group in self.model.groups
        full, known = self.model.full(job), self.model.is_known(job)
        try:
            holder = self.model.holder(job, admission)
            done = self.both(lambda store: store.publish(job, admission))
        except CapacityExceeded as refused:
            told = (refused.scope, admitted, bool(known))
            assert told == (full, False, False)
            return
        new = done.is_new
        assert (done.outcome is Outcome.EXISTING) == (done.job_id != job.id)
        if done.outcome is Outcome.EXISTING:
            assert done.job_id == holder
            return
        assert known is None or new is not known
        assert not new or admitted or full is None
        if new:
            assert holder is None
            self.model.hold_key(job, admission)
            if not admitted:
                self.model.observe_publish(job)
            self.model.groups |= {admission.group} - {None}  # type: ignore[arg-type]
            self.model.publish(job)
            self.published.append(job)

    @precondition(lambda self: self.published)
    @rule(data=st.data())
    def publish_again(self, data: st.DataObject) -> None:
        """A repeat after a lost reply, perhaps late."""
        self._publish(data.draw(st.sampled_from(self.published[-6:])), Admission())

    @rule(data=st.data(), workspace=WORKSPACES, queue=QUEUES)
    def publish_as_a_child(self, data: st.DataObject, workspace: str, queue: str) -> None:
        """A running job publishes, perhaps after it lost its lease."""
        for parent in self.fences(data, 1):
            job = Job(f"j {next(self.serial)}", workspace, queue, "t1", b"")
            self._settle_what_is_due()
            living = parent in self.model.leases
            try:
                self.both(partial(_publish, job, Admission(exempt=True, parent_fence=parent)))
            except LeaseLost:
                assert not living
                return
            assert living
            self.model.publish(job)

    # Workers

    @rule(owner=OWNERS, queues=SOME_QUEUES, n=st.integers(0, 4), shy=st.booleans(), data=st.data())
    def claim(
        self, owner: str, queues: tuple[str, ...], n: int, *, shy: bool, data: st.DataObject
    ) -> None:
        """Finish what has ended, and claim."""
        finishes = self._finishes(data) if data.draw(st.booleans()) else []
        self._claim(owner, queues, n, finishes, shy=shy)

    def _claim(
        self,
        owner: str,
        queues: tuple[str, ...],
        n: int,
        finishes: list[Finish],
        *,
        shy: bool = False,
    ) -> None:
        n = n if len(self.model.leases) < MOST_HELD else 0
        call = {**self._identity(owner), "queues": queues, "n": n, "finishes": finishes}
        call |= {"max_deliveries": MAX_DELIVERIES, "shy": shy}
        leases, lost = self.both(lambda store: _plain(store.claim(**call)))
        assert lost == self._lost(finishes)
        self.model.sweep()
        for lease in leases:
            self.model.started(lease, queues)
        if len(leases) < n:
            self.model.found_no_more(queues)
        self.seen += leases
        self.last_claim[owner] = call, leases

    def _identity(self, owner: str) -> dict[str, Any]:
        return {"owner": owner, "number": self.number(owner), "lease_seconds": LEASE_SECONDS}

    def _finishes(self, data: st.DataObject) -> list[Finish]:
        endings = st.sampled_from([Ending.ACK, Ending.ACK, Ending.ACK_EARLY])
        drawn = [Finish(f, data.draw(endings), data.draw(SECONDS)) for f in self.fences(data)]
        for finish in drawn:
            if finish.ending is Ending.ACK:
                self._reports(finish.fence, finish.seconds, ended=True)
        return drawn

    def _reports(self, fence: int, seconds: float, *, ended: bool = False) -> None:
        self.accounts.reports(self.state, fence, seconds, ended=ended, now=self.clock())

    def _lost(self, finishes: Sequence[Finish]) -> frozenset[int]:
        return frozenset([finish.fence for finish in finishes if not self.model.finish(finish)])

    @rule(owner=OWNERS, queues=SOME_QUEUES)
    def wait_and_claim(self, owner: str, queues: tuple[str, ...]) -> None:
        """Who waits is woken if a token lies there, and claims."""
        if not self.state.tokens.lying & set(queues):
            return
        waiters = [store.waiter(queues) for store in (self.memory, self.redis)]
        assert [waiter.wait(5) for waiter in waiters] == [True, True]
        for waiter in waiters:
            waiter.close()
        self._claim(owner, queues, 1, [])

    @precondition(lambda self: self.last_claim)
    @rule(data=st.data())
    def claim_again(self, data: st.DataObject) -> None:
        """The reply was lost: the same number gets the same, less what has passed."""
        call, leases = self.last_claim[data.draw(st.sampled_from(sorted(self.last_claim)))]
        again, _ = self.both(lambda store: _plain(store.claim(**call)))
        living = [lease.fence for lease in leases if lease.fence in self.model.leases]
        assert [lease.fence for lease in again] == living

    @rule(owner=OWNERS)
    def claim_late(self, owner: str) -> None:
        """A number below the last one is refused."""
        if self.numbers[owner] < LATE:
            return
        call = {"owner": owner, "number": self.numbers[owner] - 1, "queues": ["q1"], "n": 3}
        call |= {"lease_seconds": LEASE_SECONDS, "max_deliveries": 1}
        with pytest.raises(FairQueueError, match="came after a later one"):
            self.both(lambda store: store.claim(**call))  # type: ignore[arg-type]

    @rule(owner=OWNERS, times=st.sampled_from([1, 1, 2]), data=st.data())
    def ack(self, owner: str, times: int, data: st.DataObject) -> None:
        """Finish without claiming."""
        finishes, identity = self._finishes(data), self._identity(owner)
        for _ in range(times):
            lost = self.both(lambda store: store.ack(finishes=finishes, **identity))
        assert lost == self._lost(finishes)

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
        """Give a job back."""
        for fence in self.fences(data, 1):
            self._reports(fence, seconds)
            due = delay + next(self.serial) / 4096 if delay else 0.0
            how = {"delay_seconds": due, "counted": counted, "seconds": seconds}
            how["max_deliveries"] = MAX_DELIVERIES
            call: dict[str, Any] = {**self._identity(owner), **how}
            done = self.both(partial(_release, fence, call))
            assert done == self.model.release(fence, due, counted=counted)

    @rule(owner=OWNERS, data=st.data(), seconds=SECONDS)
    def reject(self, owner: str, data: st.DataObject, seconds: float) -> None:
        """Bury a job."""
        for fence in self.fences(data, 1):
            self._reports(fence, seconds)
            call = {**self._identity(owner), "reason": "it is\nbad", "seconds": seconds}
            done = self.both(partial(_reject, fence, call))
            assert done == self.model.reject(fence)

    @rule(data=st.data(), seconds=SECONDS)
    def renew(self, data: st.DataObject, seconds: float) -> None:
        """A beat."""
        fences = self.fences(data, 8)
        progress = [(fence, seconds) for fence in fences]
        renewed = self.both(lambda store: store.renew(progress, lease_seconds=LEASE_SECONDS))
        assert renewed == self.model.renew(fences)

    # Time

    @rule(seconds=PAUSES | PAUSES | st.sampled_from([16.0, 70.0, 200.0]))
    def pause(self, seconds: float) -> None:
        """A little time, or so much that the store must have been away."""
        self.model.now = self.clock.advance(seconds)

    @rule()
    def reap(self) -> None:
        """An idle claimer's poll."""
        call = {"lease_seconds": LEASE_SECONDS, "max_deliveries": MAX_DELIVERIES}
        moved = self.both(lambda store: store.reap(**call))  # type: ignore[arg-type]
        assert moved == self.model.sweep()

    @rule(beats=st.integers(1, 4))
    def pass_time(self, beats: int) -> None:
        """Enough time for leases to expire, with the store at work."""
        for _ in range(beats):
            self.pause(10.0)
            self.reap()

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
        """A process comes with other limits."""
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
        same = self.both(lambda store: store.configure(limits, authoritative=authoritative))
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
        """Limits are set live, or taken away."""
        if limits is not None and scope == "default":
            limits = replace(limits, reserve=None)
        self._set(scope, workspace if scope == "workspace" else "", limits)

    @rule(queue=QUEUES, limits=SHARED_LIMITS | SHARED_LIMITS | st.none())
    def set_limits_of_queue(self, queue: str, limits: Limits | None) -> None:
        """What may wait and run on a queue."""
        self._set("queue", queue, limits)

    @rule(limits=SHARED_LIMITS | SHARED_LIMITS | st.none())
    def set_limits_of_all(self, limits: Limits | None) -> None:
        """What may wait and run in all."""
        self._set("total", "", limits)

    @rule(task=TASKS, limits=st.none() | TASK_LIMITS | TASK_LIMITS | TASK_LIMITS)
    def set_limits_of_task(self, task: str, limits: Limits | None) -> None:
        """A task gets a limit of its own, another one, or none any more."""
        self._set("task", task, limits)

    @rule(workspace=WORKSPACES, parent=GROUPS)
    def join_a_group(self, workspace: str, parent: str | None) -> None:
        """A workspace joins a group, or loses its live limits and its group with them."""
        self._set("workspace", workspace, Limits(parent=parent) if parent else None)

    @rule(limits=LIMITS)
    def set_limits_of_group(self, limits: Limits) -> None:
        """What the workspaces of a group share."""
        self._set("workspace", "org", limits)

    def _set(self, scope: str, name: str, limits: Limits | None) -> None:
        try:
            self.both(lambda store: store.set_limits(scope, name, limits))
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
    def give_limits(self, workspace: str, limits: Limits | None, parent: str | None) -> None:
        """A limit provider has answered."""
        said = limits and replace(limits, parent=parent)
        new = self.both(lambda store: store.give_limits(workspace, said))
        assert new == self.model.give(workspace, said)
        note_limits("given", said)

    @rule(workspace=WORKSPACES, n=st.integers(1, 3), again=st.booleans())
    def ask_a_provider(self, workspace: str, n: int, again: bool) -> None:
        """A worker looks for whom a provider must be asked again; nothing idle is forgotten yet."""
        if again:
            self.both(lambda store: store.ask_again(workspace))
        how: dict[str, Any] = {"n": n, "older_seconds": 60.0, "forget_seconds": 1e9}
        due = self.both(lambda store: store.to_ask(**how))
        assert len(set(due)) == len(due) <= n

    @rule(queue=QUEUES, kind=st.sampled_from([None, True, False]))
    def purge_or_declare(self, queue: str, kind: bool | None) -> None:
        """Everything that waits is dropped; or a queue's kind is told."""
        if kind is None:
            self._purge(queue, None)
        else:
            self.both(lambda store: store.declare(queue, plain=kind))
            assert self.both(lambda store: store.is_plain(queue)) is kind

    @rule(task=st.sampled_from(["t1", "t2"]), queue=st.none() | QUEUES)
    def purge_task(self, task: str, queue: str | None) -> None:
        """What waits of one task is dropped."""
        self._purge(queue, None, task)

    def _purge(self, queue: str | None, workspace: str | None, task: str | None = None) -> None:
        dropped = self.both(lambda store: sum(store.purge(queue, workspace, task)))
        assert dropped == self.model.purge(queue, workspace, task)

    @rule(data=st.data(), queue=st.none() | QUEUES)
    def cancel(self, data: st.DataObject, queue: str | None) -> None:
        """One job is cancelled, wherever it is; perhaps it has ended."""
        some = [*self.published[-8:], *(held.kept.job for held in self.model.leases.values())]
        for job in data.draw(st.lists(st.sampled_from(some), max_size=2)) if some else ():
            of = None if queue is None else job.queue
            assert self.both(partial(_cancel, job.id, of)) == self.model.cancel(job.id)

    @precondition(lambda self: self.published)
    @rule(data=st.data(), queue=QUEUES)
    def withdraw(self, data: st.DataObject, queue: str) -> None:
        """One job is taken out of where it waits; what runs is left."""
        job = data.draw(st.sampled_from(self.published[-8:]))
        found = self.both(lambda store: store.withdraw(job.id, queue))
        assert (found and found.id) == self.model.withdraw(job.id, queue)

    @rule(workspace=WORKSPACES, running=st.booleans())
    def cancel_workspace(self, workspace: str, running: bool) -> None:
        """What waits of a workspace is dropped, or what runs is told."""
        if not running:
            self._purge(None, workspace)
            return
        told = self.both(lambda store: sum(store.cancel_running(workspace)))
        assert told == self.model.cancel_running(workspace)

    @rule(
        workspace=WORKSPACES,
        one=st.booleans(),
        drop=st.sampled_from([False, False, True]),
        spacing=st.sampled_from([0.0, 0.0, 1.0]),
    )
    def replay_or_drop(self, workspace: str, one: bool, drop: bool, spacing: float) -> None:
        """Dead letters live again, or are thrown away."""
        letters = self.both(lambda store: store.dead_letters(workspace))
        assert {each.job.id for each in letters} == set(self.model.letters[workspace])
        for letter in letters:
            self.model.letter(letter)
        job_id = letters[len(letters) // 2].job.id if one and letters else None
        if drop:
            dropped = self.both(lambda store: sum(store.drop_dead(workspace, job_id=job_id)))
            assert dropped == self.model.drop_dead(workspace, job_id)
            return
        spacing += next(self.serial) / 4096 if spacing else 0.0
        how: dict[str, Any] = {"job_id": job_id, "spacing_seconds": spacing}
        done = self.both(lambda store: sum(store.replay(workspace, **how)))
        order = [each.job.id for each in letters]
        assert done == self.model.replay(workspace, job_id, order, spacing)

    @rule(queues=SOME_QUEUES, n=st.integers(1, 3), told=st.booleans())
    def tell_of_deaths(self, queues: tuple[str, ...], n: int, told: bool) -> None:
        """A worker takes notices, and perhaps dies before it has told."""
        taken = self.both(lambda store: store.take_notices(queues, n=n, hold_seconds=5.0))
        self.model.take_notices(queues, n, 5.0, taken)
        if told:
            dropped = self.both(lambda store: store.drop_notices(taken))
            assert dropped == self.model.drop_notices(taken)

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
        """Something is paused, drained or resumed."""
        name = {"workspace": workspace, "queue": queue, "task": task}.get(scope, "")
        before = self.both(lambda store: store.pause(scope, name, how))
        assert before == self.model.pause(scope, name, how)
        assert self.both(lambda store: store.pauses()) == self.model.pauses

    @rule(workspace=WORKSPACES, data=st.data())
    def ask_why(self, workspace: str, data: st.DataObject) -> None:
        """An operator asks why a workspace waits, or a job; the model knows what holds."""
        self.both(lambda store: _rounded_why(store.why(workspace=workspace, **_NO_JOB)))
        some = [job.id for job in self.published[-12:]]
        for job_id in data.draw(st.lists(st.sampled_from(some), max_size=3)) if some else ():
            told = self.both(partial(_why, job_id))
            self.model.told_why(job_id, told)

    # After every step

    @property
    def state(self) -> State:
        """What the memory store holds."""
        return self.memory._shared.state

    @invariant()
    def all_is_well(self) -> None:
        """Both stores hold the same, the model agrees, and every invariant of the law holds."""
        space = Keyspace(self.redis.client, self.redis.keys)
        different = differences(self.state, space)
        assert different == {}, different
        found = findings(Audit(space, self.clock()))
        # a lowered limit drains; that nothing starts above one, the model has seen
        found = [finding for finding in found if finding.invariant != "I2"]
        assert found == [], found
        self.accounts.judge(self.state)
        self.model.check(self.both(lambda store: _rounded(store.snapshot())))

    def teardown(self) -> None:
        """Leave nothing on the server."""
        keys = list(self.redis.client.scan_iter(match=self.redis.keys.prefix + "*", count=1000))
        if keys:
            self.redis.client.delete(*keys)
        self.redis.close()


_NO_JOB: dict[str, Any] = {"job_id": None, "queue": None}


def _why(job_id: str, store: Store) -> Why:
    return _rounded_why(store.why(workspace=None, job_id=job_id, queue=None))


def _rounded_why(why: Why) -> Why:
    """An answer as both tell it: Redis keeps a publish's time in milliseconds."""
    lines = tuple(replace(line, published=round(line.published, 1)) for line in why.lines)
    return replace(why, lines=lines)


def _plain(claimed: Claimed) -> tuple[tuple[Lease, ...], frozenset[int]]:
    """A reply without this process's clock; the wait must be alike to a microsecond."""
    leases = tuple(replace(lease, received_monotonic=0.0) for lease in claimed.leases)
    return leases, claimed.lost


def _publish(job: Job, admission: Admission, store: Store) -> Published:
    return store.publish(job, admission)


def _cancel(job_id: str, queue: str | None, store: Store) -> Cancelled:
    return store.cancel(job_id, queue)


def _release(fence: int, call: dict[str, Any], store: Store) -> bool:
    return store.release(fence, **call)


def _reject(fence: int, call: dict[str, Any], store: Store) -> bool:
    return store.reject(fence, **call)


def _rounded(stats: Stats) -> Stats:
    """A snapshot as both tell it: Redis keeps a publish's time in milliseconds."""

    def row(row: WorkspaceStats) -> WorkspaceStats:
        wait = row.oldest_wait_seconds
        return replace(row, oldest_wait_seconds=None if wait is None else round(wait, 1))

    return Stats(tuple(map(row, stats.workspaces)), dict(sorted(stats.queues.items())))
