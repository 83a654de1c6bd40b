"""Another number of shards for a namespace in use: nothing is lost, doubled or out of order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from fairqueue import (
    ConfigurationError,
    FairQueue,
    Scope,
    StoreUnavailable,
)
from fairqueue._publish.new_job import NewJob
from fairqueue._shards.placement import shard_of
from fairqueue._stores import replies
from fairqueue._stores.layout import Mark, mark_of
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.sharded.carrier import Hold
from fairqueue.adapters import Ticker
from fairqueue.rows import WaitingJob
from fairqueue.testing import ManualClock
from tests.shards.conftest import Killed, Namespace

NAMES = [f"w{n}" for n in range(12)]
FROM, TO = 3, 5


def fill(queue: FairQueue, clock: ManualClock) -> None:
    """Give each workspace a job in each state but running, and what else it may have."""
    queue.limits.set(Scope.task("t1"), workspace_concurrency=1)
    for name in NAMES:
        put = partial(queue.publish, queue="q", workspace=name)
        for n in range(4):
            put(b"first", task="early", job_id=f"{name}-returned-{n}")
        leases = queue.claim(["q"], 3).leases
        queue.reject(leases[0], reason="broken")
        for lease in reversed(leases[1:]):
            queue.release(lease, counted=True)
        for n in range(6):
            put(f"job {n}".encode(), task=f"t{n % 2}", priority=n % 3, job_id=f"{name}-{n}")
        queue.jobs.cancel(f"{name}-3")
        queue.publish(b"", queue="other", workspace=name, task="t1", job_id=f"{name}-other")
        put(b"later", task="t0", delay_seconds=50, job_id=f"{name}-later")
        put(b"ends", task="t0", expires_seconds=500, job_id=f"{name}-ends")
        put(b"one", task="t0", unique_key="a key: 1", job_id=f"{name}-unique")
        put(b"gone", task="t1", unique_key="k", unique_for=900, job_id=f"{name}-gone")
        queue.jobs.cancel(f"{name}-gone")
        queue.schedules.put("n", NewJob(b"", queue="q"), workspace=name, every=3600)
        queue.store.note_step(leases[0].fence, name, "m", "s", f"s 1 {n}", early=True)
        clock.advance(0.01)
    queue.schedules.pause("n", workspace="w4")
    queue.schedules.put("n", NewJob(b"", queue="q"), workspace="only", every=60, spread=9)
    queue.limits.set(Scope.workspace("w1"), concurrency=2, weight=3)
    queue.limits.set(Scope.default(), capacity=1000)
    queue.pauses.pause(Scope.workspace("w2"))
    queue.pauses.drain(Scope.workspace("w3"))
    queue.pauses.pause(Scope.queue("other"))


def picture(queue: FairQueue) -> dict[str, Any]:
    """Tell all that is to stay as it is."""
    admin = queue
    waiting = {
        (name, of): [
            replace(job, seconds=0) for job in queue.store.waiting(of, workspace=name, n=100).jobs
        ]
        for name in NAMES
        for of in ("q", "other")
    }
    dead = {name: admin.dead.page(name) for name in NAMES}
    return {
        "waiting": waiting,
        "steps": {name: queue.store.steps(name, "m") for name in NAMES},
        "dead": dead,
        "stats": {
            row.workspace: (row.waiting, row.scheduled, row.dead, row.limit)
            for row in admin.views.stats().workspaces
        },
        "limits": {name: queue.store.get_limits("workspace", name) for name in NAMES},
        "task": queue.store.get_limits("task", "t1"),
        "pauses": sorted(
            (row.scope, row.name, row.state, row.since) for row in queue.store.pauses()
        ),
        "depth": {of: queue.store.depth(of) for of in ("q", "other")},
        "schedules": queue.schedules.list(),
    }


@pytest.mark.parametrize(("shards", "to"), [(FROM, TO), (FROM, 2), (1, FROM)])
def test_everything_of_a_workspace_is_as_before(
    processes: Namespace, clock: ManualClock, shards: int, to: int
) -> None:
    """Its jobs and their order, dead letters, limits and pauses; and every invariant holds."""
    queue = processes.open(shards)
    fill(queue, clock)
    before = picture(queue)
    found = queue.doctor.reshard(to)
    moving = [name for name in (*NAMES, "only") if shard_of(name, shards) != shard_of(name, to)]
    assert (found.is_done, found.late, found.workspaces) == (True, [], len(moving))
    assert picture(queue) == before
    assert picture(processes.open(to)) == before
    assert processes.findings(max(FROM, to)) == []
    for name in NAMES:
        for n in range(FROM):
            if n != shard_of(name, to):
                rows = processes.shard(n).snapshot([name])
                assert not any(row.waiting + row.scheduled + row.dead for row in rows)


def test_ticks_while_workspaces_move(
    processes: Namespace, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers look between the steps of the move: each tick of each schedule is one job."""
    queue = processes.open(1)
    for name in NAMES:
        queue.schedules.put("n", NewJob(b"", queue="q"), workspace=name, every=5, catch_up="all")
    begin, tickers = clock(), [Ticker(processes.open(1).schedules.core) for _ in range(2)]

    def look() -> None:
        clock.advance(1)
        for ticker in tickers:
            ticker.look()

    renew = Hold.renew

    def renew_and_look(self: Hold, *, now: bool = False) -> None:
        look()
        renew(self, now=now)

    monkeypatch.setattr(Hold, "renew", renew_and_look)
    assert queue.doctor.reshard(FROM).is_done
    for _ in range(10):
        look()
    ticks: dict[str, list[float]] = {name: [] for name in NAMES}
    while leases := queue.claim(["q"], 50).leases:
        for lease in leases:
            ticks[lease.job.workspace].append(int(lease.job.id.split(",")[1]) / 1000 - begin)
            queue.ack(lease)
    wanted = [5.0 * n for n in range(1, int((clock() - begin) / 5) + 1)]
    assert {name: sorted(found) for name, found in ticks.items()} == dict.fromkeys(NAMES, wanted)
    assert processes.findings(FROM) == []


@dataclass(eq=False)
class Executioner:
    """Kills one process at its nth step, before the step or when its reply was lost."""

    at: int
    after: bool
    steps: int = 0

    def step(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Count the calls of one process."""

        def call(*args: Any, **values: Any) -> Any:
            self.steps += 1
            if self.steps > self.at or (self.steps == self.at and not self.after):
                raise Killed
            reply = run(*args, **values)
            if self.steps == self.at:
                raise Killed
            return reply

        return call

    def watch(self, queue: FairQueue, shards: int) -> None:
        """Count the calls to all shards that there are or will be."""
        queue.store.layout.most = shards
        for shard in queue.store.shards:
            engine: Any = shard.engine
            engine.call, engine.command = self.step(engine.call), self.step(engine.command)
            engine.dump = self.step(engine.dump)


SOME = ("w0", "w4", "w10")
"""One of them goes to a new shard, one leaves the third, and one stays."""


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "reply lost"])
@pytest.mark.parametrize(("shards", "to"), [(1, FROM), (FROM, TO), (FROM, 2)])
def test_it_goes_on_wherever_it_was_killed(
    clock: ManualClock,
    namespace: str,
    at_once: None,
    monkeypatch: pytest.MonkeyPatch,
    shards: int,
    to: int,
    *,
    after: bool,
) -> None:
    """At every fourth of its steps: another run finds everything, and moves the rest."""
    monkeypatch.setattr("tests.shards.test_reshard.NAMES", list(SOME))
    at, is_over = -1 if after else -3, False
    while not is_over:
        at += 4
        known = Namespace(f"{namespace}-{at}", partial(MemoryEngine, Database()), clock)
        queue = known.open(shards)
        fill(queue, clock)
        before = picture(queue)
        killed, doom = known.open(shards), Executioner(at, after=after)
        doom.watch(killed, max(shards, to))
        try:
            killed.doctor.reshard(to)
            is_over = True
        except Killed:
            clock.advance(31)
            assert known.open(shards_now(known)).doctor.reshard(to).is_done
        assert picture(known.open(to)) == before, at
        assert known.findings(max(shards, to)) == [], at
        known.close()
    assert at > 30


def shards_now(known: Namespace) -> int:
    """Tell a number of shards that a process may come with."""
    engine = known.shard(0).engine
    mark = mark_of(engine)
    return 1 if mark is None else mark.shards


def test_a_workspace_waits_for_its_running_jobs(processes: Namespace) -> None:
    """For so long; then it stays where it is, runs on, and moves with another call."""
    queue = processes.open(FROM)
    [name] = [name for name in NAMES if (shard_of(name, FROM), shard_of(name, TO)) == (0, 4)][:1]
    for _ in range(3):
        queue.publish(b"", queue="q", workspace=name)
    [lease] = queue.claim(["q"], 1).leases
    found = queue.doctor.reshard(TO, wait_seconds=0.2)
    assert (found.is_done, found.late, found.workspaces) == (False, [name], 0)
    assert queue.pauses.list() == []
    queue.publish(b"", queue="q", workspace=name, exempt=True, parent_fence=lease.fence)
    [second] = queue.claim(["q"], 1).leases
    queue.ack(lease)
    queue.ack(second)
    keeper = queue.store.clone()
    assert queue.doctor.reshard(TO).is_done
    assert processes.shard(4).depth("q") == 2
    leases = queue.claim(["q"], 2).leases
    assert [lease.fence % 64 for lease in leases] == [4, 4]
    progress = [(lease.fence, 0.0) for lease in leases]
    assert not keeper.renew(progress, owner=leases[0].owner, lease_seconds=30).lost


def test_processes_must_agree(processes: Namespace) -> None:
    """With the old number or the new one while it changes; then with the new one only."""
    queue = processes.open(FROM)
    for name in NAMES:
        queue.publish(b"", queue="q", workspace=name)
    leases = [lease for _ in NAMES for lease in queue.claim(["q"], 1).leases]
    assert not queue.doctor.reshard(TO, wait_seconds=0).is_done
    [told] = [one for one in queue.doctor.checkup().remarks if one.about == "shards"]
    assert "from 3 to 5 shards" in told.text
    for shards in (FROM, TO):
        processes.open(shards).publish(b"", queue="q", workspace="late", job_id="the same")
    with pytest.raises(ConfigurationError, match="on their way from 3 to 5 shards"):
        processes.open(4)
    with pytest.raises(ConfigurationError, match="let that end first, with --to 5"):
        queue.doctor.reshard(4)
    for lease in leases:
        queue.ack(lease)
    assert queue.doctor.reshard(TO).is_done
    assert not [one for one in queue.doctor.checkup().remarks if one.about == "shards"]
    assert processes.open(TO).store.depth("q") == 1
    with pytest.raises(ConfigurationError, match=r"on 5 shards, .* set up for 3: .*\?shards=5$"):
        processes.open(FROM)
    queue.connect()  # it has followed


def test_one_shard_becomes_several(processes: Namespace) -> None:
    """Limits wider than a shard hold before, meanwhile and afterwards; there is no way back."""
    queue, late = processes.open(1, total_concurrency=4), processes.open(1)
    queue.limits.set(Scope.task("t"), concurrency=3)
    for name in NAMES * 2:
        queue.publish(b"", queue="q", workspace=name, task="t")
    with pytest.raises(ConfigurationError, match="run fairqueue's 'reshard --to 3' with shards=1"):
        processes.open(FROM)
    leases = queue.claim(["q"], 9).leases
    assert len(leases) == 3
    assert not late.doctor.reshard(FROM, wait_seconds=0).is_done
    assert late.store.get_limits("total", "")[0].limits == {"concurrency": 4}
    late.limits.set(Scope.task("t"), concurrency=2)
    assert [shard.get_limits("task", "t") for shard in late.store.shards] == [
        late.store.get_limits("task", "t")
    ] * FROM
    for lease in leases:
        queue.ack(lease)
    assert late.doctor.reshard(FROM).is_done
    fresh = processes.open(FROM, total_concurrency=4)
    assert fresh.connect()  # the limits are its own
    assert processes.findings(FROM) == []
    for to in (1, 65):
        with pytest.raises(ConfigurationError, match=r"never become one|there may be 2 to 64"):
            queue.doctor.reshard(to)


def test_nothing_is_left_of_an_earlier_use_of_a_shard(processes: Namespace) -> None:
    """Imports that were suspended before it was dropped go on when it is there again."""
    first = processes.open(TO)
    first.store.suspend_imports(3600)
    assert first.doctor.reshard(FROM).is_done
    second = processes.open(FROM)
    second.store.suspend_imports(0)
    assert second.doctor.reshard(TO).is_done
    last = processes.shard(TO - 1)
    key = last.engine.keys.key("shard")
    assert not last.engine.command("HEXISTS", key, "imports_suspended")


def test_a_unique_key_still_counts(processes: Namespace) -> None:
    """Of a job that waits, and of one that has ended before its time was over."""
    queue = processes.open(FROM)
    for name in NAMES:
        queue.publish(b"", queue="q", workspace=name, unique_key="k", unique_for=100)
        queue.publish(b"", queue="r", workspace=name, unique_key="l", task="t")
    while leases := queue.claim(["q"], 9).leases:
        for lease in leases:
            queue.ack(lease)
    assert queue.doctor.reshard(TO).is_done
    for name in NAMES:
        for key, task in (("k", ""), ("l", "t")):
            again = queue.publish(b"", queue="q", workspace=name, unique_key=key, task=task)
            assert again.outcome == "existing", (name, key)


def test_requests_in_flight_go_with_their_workspace(processes: Namespace) -> None:
    """They count on the new shard at once, are renewed there, and end there."""
    queue = processes.open(FROM)
    [name] = [name for name in NAMES if (shard_of(name, FROM), shard_of(name, TO)) == (0, 4)][:1]
    queue.limits.set(Scope.workspace(name), requests=2)
    tickets = [replies.ticket("web", name, n) for n in range(3)]

    def admit(ticket: str) -> bool:
        asked = queue.store.admit_request(ticket, lease_seconds=30, waiting_most=1)
        return asked.state == "in_flight"

    assert [admit(ticket) for ticket in tickets] == [True, True, False]
    assert queue.doctor.reshard(TO).is_done
    assert processes.findings(TO) == []
    assert processes.shard(4).count_requests(name) == (2, 2, 0)
    assert queue.store.renew_requests(tickets[:2], lease_seconds=30) == []
    assert processes.shard(4).count_requests(name) == (2, 2, 0)
    assert not admit(tickets[2])
    assert queue.store.end_request(tickets[0])
    assert admit(tickets[2])


def waiting(queue: FairQueue, of: str, name: str) -> list[WaitingJob]:
    """Read all pages of what waits in a workspace."""
    found: list[WaitingJob] = []
    page = queue.store.waiting(of, workspace=name)
    while page.cursor:
        found += page.jobs
        page = queue.store.waiting(of, workspace=name, cursor=page.cursor)
    return [*found, *page.jobs]


def test_many_jobs_move_in_their_order(processes: Namespace, clock: ManualClock) -> None:
    """Page by page, with holes in the middle and at the head, in several queues and lanes."""
    queue = processes.open(FROM)
    [name] = [name for name in NAMES if (shard_of(name, FROM), shard_of(name, TO)) == (0, 4)][:1]
    for n in range(450):
        task, of = f"t{n % 3}", f"q{n % 2}"
        queue.publish(b"x" * n, queue=of, workspace=name, task=task, job_id=f"{n}")
    assert queue.jobs.purge(workspace=name, task="t0") == 150
    for n in range(0, 300, 7):
        queue.jobs.cancel(f"{n}")
    clock.advance(1)
    before = [waiting(queue, of, name) for of in ("q0", "q1")]
    assert sum(map(len, before)) == 300 - 28
    found = queue.doctor.reshard(TO)
    assert (found.workspaces, found.jobs > 250) == (1, True)
    assert [waiting(queue, of, name) for of in ("q0", "q1")] == before
    assert processes.findings(TO) == []


def test_an_operator_waits_for_a_move(processes: Namespace) -> None:
    """No pause or limit is lost meanwhile."""
    queue = processes.open(FROM)
    queue.publish(b"", queue="q", workspace="w7")
    home = queue.store.shards[0]
    home.set_moves(Mark(FROM, to=TO))
    assert home.hold_workspace("w7", 4) == 0
    for change in (home.pause, home.set_limits):
        with pytest.raises(StoreUnavailable, match="moves to another shard"):
            change("workspace", "w7", None)
    for search in (home.cancel, home.withdraw):
        with pytest.raises(StoreUnavailable, match="moves to another shard"):
            search(home.waiting("q", workspace="w7").jobs[0].job_id, workspace="w7", queue="q")
    assert not queue.claim(["q"], 1).leases
    assert queue.pauses.list() == []
