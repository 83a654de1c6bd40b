"""A slot is freed when both the ack and the end of the run are in, in either order."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fairqueue import FairQueue, Lease, StoreUnavailable
from fairqueue._shards.placement import shard_of
from fairqueue.adapters import Ending, Finish
from fairqueue_celery._consume import claims as claims_module
from fairqueue_celery._consume.claims import HOLD_BACK_SECONDS, Claims, Waiting
from fairqueue_celery._consume.held_lease import HeldLease, Verdict
from fairqueue_celery._consume.leases import HeldLeases
from fairqueue_celery._consume.shared_memory import Deadlines, deadlines, runs
from fairqueue_celery._worker import unbegun


class Request:
    """The attributes of a Celery request that a held lease reads."""

    def __init__(self, *, acknowledged: bool = False, acks_late: bool = True) -> None:
        self.acknowledged = acknowledged
        self.task = SimpleNamespace(acks_late=acks_late)


@pytest.fixture
def core(redis_url: str, namespace: str) -> Iterator[FairQueue]:
    with FairQueue(redis_url, namespace=namespace, workspace_concurrency=1) as core:
        yield core


@pytest.fixture
def leases(core: FairQueue) -> Iterator[HeldLeases]:
    leases = HeldLeases(core)
    yield leases
    leases._keeper.stop()


@pytest.fixture
def held(core: FairQueue, leases: HeldLeases) -> HeldLease:
    """A delivered job of a workspace with a concurrency of one; a second job waits."""
    for n in range(2):
        core.publish(b"%d" % n, queue="q", workspace="ada")
    [lease] = core.claim(["q"], 5).leases
    return leases.hold(lease, None, "pool")


def begin(leases: HeldLeases, held: HeldLease, *, acknowledged: bool = False) -> None:
    held.request = Request(acknowledged=acknowledged)
    leases.start(held, time.monotonic())


def state(core: FairQueue) -> dict[str, int]:
    [row] = core.views.stats().workspaces
    return {"waiting": row.waiting, "running": row.running, "dead": row.dead, "lost": row.lost}


def test_an_end_waits_for_its_ack(core: FairQueue, leases: HeldLeases, held: HeldLease) -> None:
    """Ended with an ack on its way, the job is not given back; the ack finishes it."""
    begin(leases, held, acknowledged=True)
    leases.end(held)
    leases.flush()
    assert state(core)["running"] == 1

    leases.decide(held.fence, Verdict.ACK)
    leases.flush()

    assert state(core) == {"waiting": 1, "running": 0, "dead": 0, "lost": 0}


def test_an_early_ack_that_the_store_has_is_not_sent_again(
    core: FairQueue, leases: HeldLeases
) -> None:
    """Only the end is reported, and steps the loop; a run that did not begin goes back."""
    steps = list[HeldLease]()
    owner: Any = SimpleNamespace(changed=steps.append)
    core.publish(b"", queue="q", workspace="ada")
    for begins in (False, True):
        [lease] = core.claim(["q"]).leases
        core.finish([Finish(lease.fence, Ending.ACK_EARLY)])
        held = leases.hold(lease, owner, "pool", acked_early=True)
        held.request = Request(acks_late=False)
        if begins:
            leases.start(held, time.monotonic())
            leases.decide(held.fence, Verdict.ACK)
            assert leases.pending == 0
        leases.end(held)
        assert steps.pop() is held
        assert not steps
        leases.flush()
        assert core.depth("q") == (0 if begins else 1)


@pytest.mark.parametrize("begun", [True, False])
def test_what_is_not_begun_within_three_leases_goes_back(
    core: FairQueue, leases: HeldLeases, held: HeldLease, *, begun: bool
) -> None:
    """Uncounted, and it occupies the pool until that has passed it; one that had begun is kept."""
    broker: Any = SimpleNamespace(leases=leases, core=core, settings=core.settings)
    held.request = Request()
    unbegun.give_back_unbegun(broker, "pool")
    assert held.withdrawn is None
    held.held_since -= unbegun.LEASES * core.settings.lease_seconds
    held.lease = replace(held.lease, received_monotonic=held.held_since)  # and it was renewed
    unbegun.give_back_unbegun(broker, "pool")
    assert deadlines.is_lost(held.fence)
    if begun:  # between its look at the deadline and that
        runs.begin(held.fence)
    unbegun.give_back_unbegun(broker, "pool")

    assert deadlines.is_lost(held.fence) is not begun
    assert leases.may_begin(held)
    assert state(core)["running"] == int(begun)
    assert leases.count("pool") == 1
    if begun:
        return
    again = core.claim(["q"]).leases[0]
    assert (again.job.payload, again.deliveries) == (b"0", 1)
    leases.refuse(held)
    leases.end(held)
    leases.flush()
    assert leases.count("pool") == 0
    assert state(core)["running"] == 1


def test_what_was_not_delivered_goes_back_when_redis_answers(
    core: FairQueue, leases: HeldLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, although the first call fails; early-acked jobs as well."""
    for n in range(3):
        core.publish(b"", queue="q", workspace=f"w{n}")
    claimed = core.claim(["q"], 3).leases
    for lease in claimed:
        core.finish([Finish(lease.fence, Ending.ACK_EARLY)])

    def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    leases.give_back(claimed)
    with monkeypatch.context() as patch:
        patch.setattr(core, "finish", away)
        with pytest.raises(StoreUnavailable):
            leases.flush()
    assert leases.pending == 3
    leases.flush()
    assert core.depth("q") == 3
    assert leases.all() == []


def test_what_goes_back_is_not_changed_any_more(
    core: FairQueue, leases: HeldLeases, held: HeldLease
) -> None:
    """A late release of a requeued job, as of a task that this process does not know."""
    leases.decide(held.fence, Verdict.REQUEUE)
    leases.release(held, delay_seconds=600, declined=True)
    leases.flush()
    assert state(core)["waiting"] == 2
    assert core.claim(["q"]).leases


def test_what_must_not_begin_stays_lost_when_it_cannot_go_back(
    leases: HeldLeases, held: HeldLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may still have it: it must not find a lease that is renewed again."""

    def away(*_: Any, **_how: Any) -> None:
        raise StoreUnavailable("away")

    leases.withdraw(held)
    leases.release(held)
    monkeypatch.setattr(leases._core, "finish", away)
    with pytest.raises(StoreUnavailable):
        leases.flush()
    assert deadlines.is_lost(held.fence)
    assert leases._keeper.deadline(held.fence) is None


class Free(Claims):
    """Claims for a pool of nine processes, which acks jobs of the task `early` before they run."""

    pool = "pool"

    def __init__(self, core: FairQueue, leases: HeldLeases) -> None:
        super().__init__(core, leases, SimpleNamespace(deliver=self.deliver))
        self.queues = ["q"]
        self.held: list[HeldLease] = []
        self.waited: list[bool] = []

    def deliver(self, lease: Lease, *, acked_early: bool) -> None:
        self.waited.append(self.waiting)
        self.held.append(self._leases.hold(lease, self, self.pool, acked_early=acked_early))


@pytest.fixture
def free(core: FairQueue, leases: HeldLeases, monkeypatch: pytest.MonkeyPatch) -> Iterator[Free]:
    monkeypatch.setattr(claims_module, "acks_at_start", lambda _, task: task == "early")
    monkeypatch.setattr(claims_module, "most_jobs", lambda _: 9)
    free = Free(core, leases)
    yield free
    free.close()


def test_a_renewal_beside_a_release_finds_no_loss(
    core: FairQueue,
    leases: HeldLeases,
    held: HeldLease,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The lease ends on purpose, so no log says that another worker may run the job."""
    finish = core.finish

    def finish_and_renew(finishes: Sequence[Finish], **how: Any) -> frozenset[int]:
        lost = finish(finishes, **how)
        leases._keeper._try_to_renew(core)
        return lost

    monkeypatch.setattr(core, "finish", finish_and_renew)
    leases.release(held)
    leases.flush()
    assert state(core)["waiting"] == 2
    assert not caplog.messages


def test_a_claim_acks_what_celery_acks_before_it_runs(
    core: FairQueue, free: Free, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first job of a task takes a call more, later ones none; late-acked ones stay as is."""
    acks, finish = list[int](), core.finish

    def counted(ends: Sequence[Finish]) -> frozenset[int]:
        acks.append(len(ends))
        return finish(ends)

    monkeypatch.setattr(core, "finish", counted)
    for turn in range(3):
        for task in ("early", "late"):
            core.publish(b"", queue="q", workspace=f"{task} {turn}", task=task)
        free.waiting = False
        free.step()
    assert acks == [1]
    assert free.waited == [False] * 6  # no job waits until the next wait is sent
    delivered = sorted((held.lease.job.task, held.acked_early) for held in free.held)
    assert delivered == [("early", True)] * 3 + [("late", False)] * 3


def test_an_end_waits_for_the_next_job_unless_ends_let_jobs_run(
    core: FairQueue, leases: HeldLeases, free: Free
) -> None:
    """Where no job was left it has 5 ms; not in the second after one has freed a limit's slot."""
    core.publish(b"", queue="q", workspace="ada", task="early")
    free.step()
    core.publish(b"", queue="q", workspace="ada", task="early")
    for due in (False, True):
        [held] = free.held
        leases.decide(held.fence, Verdict.ACK)
        leases.end(held)
        free.step()
        if not due:
            assert leases.pending == 1
            assert 0 < (free.due_in() or 0) <= HOLD_BACK_SECONDS
            leases.pending_since -= HOLD_BACK_SECONDS
            free.step()
        assert leases.pending == 0
        free.held.remove(held)
        assert len(free.held) == (not due)


def test_a_job_whose_early_ack_is_owed_does_not_start(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several servers did not take the ack: the job goes back when it answers."""
    here, there = (next(n for n in "abcdefgh" if shard_of(n, 2) == home) for home in (0, 1))
    with FairQueue(f"memory://{namespace}", namespace=namespace, shards=2) as core:
        engines = [shard.engine for shard in core.store.shards]
        server = property(lambda engine: f"server {engine.shard}")
        monkeypatch.setattr(type(engines[1]), "server", server)
        core.publish(b"", queue="q", workspace=there)
        [lease] = core.claim(["q"]).leases
        core.publish(b"", queue="q", workspace=here)
        core._claimer._empty.forget(0)  # as a wake-up does
        leases = HeldLeases(core)
        claims = Claims(core, leases, None)
        claims.queues = ["q"]
        claims._ahead.append(Waiting(lease, acks_early=True))
        with monkeypatch.context() as away:

            def refuse(*_: Any) -> None:
                raise StoreUnavailable("the server is away")

            away.setattr(engines[1], "_run", refuse)
            away.setattr(engines[1], "command", refuse)
            away.setattr(claims, "_wanted", lambda: 1)
            away.setattr(claims, "_acks_early", lambda _: True)
            claims._begin_call()
            claims._end_call()
            assert [waiting.needs_ack for waiting in claims._ahead] == [True, True]
            away.setattr(claims, "_free", lambda: 1)
            claims._ack_ahead()
            assert claims.ahead == 0
        for shard in core.store.shards:
            shard.engine.breaker.answered()
        leases.flush()
        again = {each.job.id: each.deliveries for each in core.claim(["q"], 2).leases}
    assert again[lease.job.id] == 1


def test_a_lost_lease_stays_known_while_others_come_and_go() -> None:
    """A process that was stopped meanwhile must not begin its job; one shard's fences are spread.

    They are multiples of 64.
    """
    known, now = Deadlines(), time.monotonic()
    known.lose(64)
    for n in range(2, 20_000):
        known[64 * n] = now + 9
        known.pop(64 * n)
    for n in range(20_000, 24_000):
        known[64 * n] = now + 9

    assert known.is_lost(64, within=None)
    assert not any(known.is_lost(64 * n) for n in range(20_000, 24_000))
    assert sum(known.is_lost(64 * n, within=10) for n in range(20_000, 24_000)) == 4_000
