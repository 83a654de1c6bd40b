"""The workspaces of one parent live on its shard, so their limits hold over all of them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueue, FairQueueError, Scope, StoreUnavailable
from fairqueue._publish.new_job import NewJob
from fairqueue._shards.placement import shard_of
from fairqueue._stores.engine import Engine
from fairqueue._stores.layout import Mark
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.replies import ticket
from fairqueue._stores.sharded import ShardedStore, parents
from fairqueue._types import Limits, StoredLimits
from fairqueue.audit.remarks import of_layout
from fairqueue.rows import DeadFilter
from fairqueue.testing import ManualClock
from tests.shards.conftest import HOMES as MEMBERS
from tests.shards.conftest import Killed, Namespace
from tests.shards.test_reshard import FROM, Executioner, shards_now
from tests.shards.test_reshard_holds import places

ORG = "org"
AT = shard_of(ORG, FROM)


OTHERS = [name for name in MEMBERS if shard_of(name, FROM) != AT]
OTHER = next(n for n in map("o{}".format, range(99)) if shard_of(n, FROM) != AT)
"""A parent on another shard."""


def at(queue: FairQueue, workspace: str) -> int:
    """Say on which shard a process finds a workspace."""
    store = queue.store
    assert isinstance(store, ShardedStore)
    return store.home(workspace).engine.shard


def put(queue: FairQueue, *names: str, n: int = 1, **job: Any) -> None:
    """Publish some jobs of each."""
    for name in names:
        for _ in range(n):
            queue.publish(b"", queue="q", workspace=name, task="t", **job)


def ran(queue: FairQueue, n: int = 100) -> list[str]:
    """Start what may start."""
    return [lease.job.workspace for lease in queue.claim(["q"], n).leases]


def ended(queue: FairQueue) -> None:
    """Run what there is."""
    while leases := queue.claim(["q"], 9).leases:
        for lease in leases:
            queue.ack(lease)


def group(queue: FairQueue, *names: str, parent: str = ORG) -> None:
    """Let these have one parent."""
    for name in names:
        queue.limits.set(Scope.workspace(name), parent=parent)


def test_the_concurrency_of_a_group_is_exact(processes: Namespace) -> None:
    """Its workspaces are of different shards by their names."""
    queue = processes.open(FROM)
    queue.limits.set(Scope.workspace(ORG), concurrency=4)
    group(queue, *MEMBERS)
    put(queue, *MEMBERS, n=5)
    assert places(processes) == {AT: 15}
    assert len(ran(queue)) == 4
    assert processes.findings(FROM) == []


def test_a_publisher_that_knows_no_parent(processes: Namespace) -> None:
    """It finds the shard by itself, also for many jobs at once, and where it published before."""
    late = processes.open(FROM)
    put(late, *MEMBERS)
    ended(late)
    group(processes.open(FROM), *MEMBERS)
    put(late, *MEMBERS * 2)
    put(processes.open(FROM), *MEMBERS, delay_seconds=5)
    processes.open(FROM).publish_many([NewJob(b"", "q", workspace=name) for name in MEMBERS * 2])
    assert places(processes) == {AT: 15}
    assert processes.findings(FROM) == []


def test_every_call_about_a_workspace_reaches_it(processes: Namespace) -> None:
    """Of a process that has known another place."""
    late = processes.open(FROM)
    name = OTHERS[0]
    put(late, name)
    ended(late)
    group(processes.open(FROM), name)
    admin = late
    assert [at(late, each) for each in (name, ORG)] == [AT, AT]
    assert admin.views.why(workspace=name).workspace == name
    assert parents.parents_in(processes.shard(AT), name) == {"live": ORG}
    put(late, name)
    assert [(row.workspace, row.waiting) for row in admin.views.stats().workspaces] == [(name, 1)]
    [row] = late.store.snapshot([name])
    assert row.waiting == 1
    admin.pauses.pause(Scope.workspace(name))
    assert ran(late) == []
    admin.pauses.resume(Scope.workspace(name))
    admin.limits.set(Scope.workspace(name), concurrency=1)
    put(late, name, job_id="two")
    assert ran(late) == [name]
    assert len(late.store.running(9, workspace=name).jobs) == 1
    assert admin.jobs.cancel("two").name == "REMOVED"
    [found] = processes.shard(AT).snapshot([name])
    assert (found.running, found.limit) == (1, 1)
    admitted = late.store.admit_request(ticket("web", name, 1), lease_seconds=9, waiting_most=0)
    assert admitted.scope == ""
    assert processes.findings(FROM) == []


def test_a_parent_that_is_unset_moves_nothing(processes: Namespace) -> None:
    """Its workspace stays there alone; another parent takes it along, but not to where it was."""
    queue, name = processes.open(FROM), OTHERS[0]
    queue.limits.set(Scope.workspace(ORG), concurrency=1)
    group(queue, name)
    put(queue, name)
    queue.limits.unset(Scope.workspace(name))
    put(processes.open(FROM), name)
    assert places(processes) == {AT: 2}
    ended(queue)
    third = next(n for n in MEMBERS if shard_of(n, FROM) not in {AT, shard_of(name, FROM)})
    group(queue, name, parent=third)
    put(processes.open(FROM), name)
    assert places(processes) == {shard_of(third, FROM): 1}
    ended(queue)
    queue.limits.unset(Scope.workspace(name))
    with pytest.raises(ConfigurationError, match="the workspace has left that shard for shard"):
        group(queue, name)
    assert processes.findings(FROM) == []


JOBS: dict[str, dict[str, Any]] = {
    "waiting": {},
    "scheduled": {"delay_seconds": 5},
    "running": {},
    "dead": {},
    "unique": {"unique_key": "k", "unique_for": 900},
    "rate": {},
    "task rate": {},
}
"""Jobs by which a workspace is known."""
RATES = {
    "rate": (Scope.default(), {"rate": "1/h"}),
    "task rate": (Scope.task("t"), {"workspace_rate": "1/h"}),
}
KNOWN = (*JOBS, "request", "pause", "limit")


def make_known(queue: FairQueue, name: str, has: str) -> None:
    """Let a shard know this of a workspace."""
    if has in RATES:
        scope, rate = RATES[has]
        queue.limits.set(scope, **rate)
    if has in JOBS:
        put(queue, name, **JOBS[has])
    leases = queue.claim(["q"], 1).leases if has in {"running", "dead"} else ()
    match has:
        case "dead":
            queue.reject(leases[0], reason="broken")
        case "unique" | "rate" | "task rate":
            ended(queue)
        case "request":
            queue.store.admit_request(ticket("web", name, 1), lease_seconds=9, waiting_most=0)
        case "pause":
            queue.pauses.pause(Scope.workspace(name))
        case "limit":
            queue.limits.set(Scope.workspace(name), capacity=7)


@pytest.mark.parametrize("has", KNOWN)
def test_a_workspace_that_is_known_stays(
    processes: Namespace, clock: ManualClock, has: str
) -> None:
    """Nothing has changed, the error names the remedy, and once that is done it goes."""
    queue, name = processes.open(FROM), OTHERS[0]
    make_known(queue, name, has)
    home, before = at(queue, name), queue.limits.list()
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="and resume it, then set the parent again"):
            group(queue, name)
    if has != "limit":
        with pytest.raises(ConfigurationError, match="purge its dead letters"):
            queue.store.put_provider_limits(name, Limits(parent=ORG))
    assert (at(queue, name), queue.limits.list()) == (home, before)
    assert set(places(processes)) <= {home}
    queue.jobs.purge(workspace=name)
    queue.dead.purge(DeadFilter(name))
    queue.store.end_request(ticket("web", name, 1))
    queue.limits.unset(Scope.workspace(name))
    queue.pauses.resume(Scope.workspace(name))
    for _ in range(2):
        clock.advance(3601)
        queue.store.reap(max_deliveries=None)
        ended(queue)
    group(queue, name)
    put(queue, name)
    assert places(processes) == {AT: 1}
    assert processes.findings(FROM) == []


def test_a_workspace_whose_record_could_not_be_written_stays(
    processes: Namespace, clock: ManualClock
) -> None:
    """Its timer leads to its jobs: they would run without the limits of the group."""
    queue, name = processes.open(FROM), OTHERS[0]
    put(queue, name, n=3)
    engine = processes.shard(at(queue, name)).engine
    engine.command("HDEL", engine.keys.key("workspaces"), name)
    engine.command("ZADD", engine.keys.key("timer"), clock(), name)
    with pytest.raises(ConfigurationError, match="the workspace has jobs"):
        group(queue, name)


def test_a_provider_names_a_parent_later(processes: Namespace) -> None:
    """Its answer replaces all that it has said before, so nothing is left behind."""
    queue, name = processes.open(FROM), OTHERS[0]
    assert queue.store.put_provider_limits(name, Limits(concurrency=3))
    assert queue.store.put_provider_limits(name, Limits(concurrency=2, parent=ORG))
    assert at(queue, name) == AT
    row = processes.shard(AT).get_limits("workspace", name)[-1]
    assert row.limits == {"concurrency": 2, "parent": ORG}


def test_two_processes_name_parents_at_the_same_time(
    processes: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of one the other does it, too: what neither was refused stands, all of it."""
    call, is_over = Engine.call, False
    names = (name for name in map("w{}".format, count()) if shard_of(name, FROM) != AT)
    given: list[dict[str, Any]] = [
        {"parent": ORG, "concurrency": 2},
        {"parent": OTHER, "capacity": 7},
    ]
    for step, name in enumerate(names):
        stands: dict[str, Any] = {}
        left = iter(range(step))

        def try_to_set(which: int) -> None:
            with suppress(ConfigurationError, StoreUnavailable):
                limits = Limits(**given[which])
                processes.open(FROM).store.set_limits("workspace", name, limits)  # noqa: B023
                stands.update(given[which])  # noqa: B023

        def called(engine: Engine, operation: str, /, **named: Any) -> Any:
            if next(left, None) is None:  # noqa: B023
                monkeypatch.setattr(Engine, "call", call)
                try_to_set(1)
            return call(engine, operation, **named)

        monkeypatch.setattr(Engine, "call", called)
        try_to_set(0)
        is_over = Engine.call is not call
        monkeypatch.setattr(Engine, "call", call)
        if is_over:
            break
        home = at(processes.open(FROM), name)
        assert home == shard_of(stands["parent"], FROM), step
        row = processes.shard(home).get_limits("workspace", name)[-1]
        assert row.limits == stands, step
    assert step > 3
    assert processes.findings(FROM) == []


def configured(known: Namespace, **workspaces: dict[str, Any]) -> FairQueue:
    """Start a worker that is configured so."""
    queue = known.open(FROM)
    limits = {name: Limits(**given) for name, given in workspaces.items()}
    queue.store.configure(StoredLimits(workspaces=limits), authoritative=True)
    return queue


def test_configured_parents(processes: Namespace) -> None:
    """Workspaces begin there when a worker starts; another start looks for nothing."""
    late = processes.open(FROM)
    limits: dict[str, dict[str, Any]] = {name: {"parent": ORG} for name in MEMBERS}
    limits[ORG] = {"concurrency": 2}
    configured(processes, **limits)
    put(late, *MEMBERS, n=3)
    assert places(processes) == {AT: 9}
    assert len(ran(late)) == 2
    configured(processes, **limits)
    assert processes.findings(FROM) == []


def test_of_two_parents_the_one_in_force_counts(processes: Namespace) -> None:
    """Live ones are over those of a provider, and these over configured ones."""
    name = next(n for n in MEMBERS if shard_of(n, FROM) not in {AT, shard_of(OTHER, FROM)})
    queue = configured(processes, **{name: {"parent": ORG}})
    assert at(queue, name) == AT
    assert queue.store.put_provider_limits(name, Limits(parent=OTHER))
    put(queue, name)
    assert places(processes) == {shard_of(OTHER, FROM): 1}
    assert queue.store.put_provider_limits(name, Limits(parent=OTHER, weight=2))
    with pytest.raises(ConfigurationError, match="has left that shard"):
        queue.store.put_provider_limits(name, None, age_seconds=-1)
    group(queue, name, parent=OTHER)
    assert queue.store.put_provider_limits(name, None, age_seconds=-1)
    assert at(queue, name) == shard_of(OTHER, FROM)
    assert processes.findings(FROM) == []


def test_none_leaves_while_the_number_of_shards_changes(processes: Namespace) -> None:
    """A process that looked before that, and slept, is refused at the shard."""
    queue, name = processes.open(FROM), OTHERS[0]
    shard = processes.shard(at(queue, name))
    shard.set_moves(Mark(FROM, to=5))
    with pytest.raises(FairQueueError, match="moved by another process"):
        shard.leave_shard(name, AT, "live")
    shard.set_moves(None)
    group(queue, name)
    assert at(queue, name) == AT


def test_a_parent_has_no_parent(processes: Namespace) -> None:
    """Neither one that is named, nor one that gets one later; but it may name itself."""
    queue = processes.open(FROM)
    group(queue, *OTHERS)
    with pytest.raises(ConfigurationError, match="is the parent of others"):
        group(queue, ORG, parent="above")
    with pytest.raises(ConfigurationError, match=f"has the parent '{ORG}' itself"):
        group(queue, "below", parent=OTHERS[0])
    group(queue, ORG, parent=ORG)
    with pytest.raises(ConfigurationError, match="has the parent 'c' itself"):
        configured(processes, a={"parent": "b"}, b={"parent": "c"})


@pytest.mark.parametrize("after", [False, True], ids=["before", "reply lost"])
def test_it_goes_on_wherever_it_was_killed(
    clock: ManualClock, namespace: str, *, after: bool
) -> None:
    """Publishes and claims go on, and the same call ends it."""
    step, is_over = 0, False
    name, *_ = OTHERS
    while not is_over:
        step += 1
        known = Namespace(f"{namespace}-{step}", partial(MemoryEngine, Database()), clock)
        queue = known.open(FROM)
        killed, doom = known.open(FROM), Executioner(step, after=after)
        doom.watch(killed, FROM)
        try:
            killed.limits.set(Scope.workspace(name), parent=ORG, concurrency=1)
            is_over = True
        except Killed:
            queue.limits.set(Scope.workspace(name), parent=ORG, concurrency=1)
        put(known.open(FROM), name, n=2)
        assert places(known) == {AT: 2}, step
        assert len(ran(queue)) == 1, step
        assert list(of_layout(queue.store.shards)) == [], step
        assert known.findings(FROM) == [], step
        known.close()
    assert step > 5


def test_another_number_of_shards(processes: Namespace, clock: ManualClock) -> None:
    """From three to five and back: each group goes to its parent's new shard, and is exact."""
    queue = processes.open(FROM)
    org = next(n for n in map("o{}".format, range(99)) if shard_of(n, 5) != shard_of(n, FROM))
    names = [f"w{n}" for n in range(12)]
    queue.limits.set(Scope.workspace(org), concurrency=4)
    group(queue, *names, parent=org)
    put(queue, *names[:6], n=2)
    alone = [f"a{n}" for n in range(6)]
    group(queue, alone[0], parent=org)
    put(queue, *names, *alone)
    queue.limits.unset(Scope.workspace(alone[0]))
    slept = processes.open(FROM)
    put(slept, *names)
    for to in (5, FROM):
        assert queue.doctor.reshard(to).is_done
        there = shard_of(org, to)
        put(slept, *names)
        put(processes.open(to), *names, delay_seconds=1)
        fresh = processes.open(to)
        assert {at(fresh, name) for name in names} == {there}
        assert {name: at(fresh, name) for name in alone} == {
            name: shard_of(name, to) for name in alone
        }
        assert processes.findings(max(to, FROM)) == []
        clock.advance(2)
        queue.store.reap(max_deliveries=None)
        began = [lease for _ in range(4) for lease in queue.claim(["q"], 100).leases]
        assert sum(lease.job.workspace in {*names, "late"} for lease in began) == 4
        for lease in began:
            queue.ack(lease)
        group(fresh, "late", parent=org)
        put(fresh, "late")
        assert at(fresh, "late") == there
        assert processes.findings(max(to, FROM)) == []


@pytest.mark.slow
def test_a_change_of_shards_goes_on_wherever_it_was_killed(
    clock: ManualClock, namespace: str, at_once: None
) -> None:
    """At every seventh of its steps: another run moves the rest, and a group stays whole."""
    org = next(n for n in map("o{}".format, range(99)) if shard_of(n, 5) >= FROM)
    step, is_over = -6, False
    while not is_over:
        step += 7
        known = Namespace(f"{namespace}-{step}", partial(MemoryEngine, Database()), clock)
        queue = known.open(FROM)
        group(queue, *OTHERS, parent=org)
        put(queue, *OTHERS)
        killed, doom = known.open(FROM), Executioner(step, after=bool(step % 2))
        doom.watch(killed, 5)
        try:
            killed.doctor.reshard(5)
            is_over = True
        except Killed:
            clock.advance(31)
            assert known.open(shards_now(known)).doctor.reshard(5).is_done
        put(queue, *OTHERS)
        put(known.open(5), *OTHERS)
        assert places(known) == {shard_of(org, 5): 3 * len(OTHERS)}, step
        assert known.findings(5) == [], step
        known.close()
    assert step > 30
