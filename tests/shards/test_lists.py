"""A sharded store lists what a plain one lists that was given the same jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from fairqueue import FairQueue, Job, JobState, NewJob, Why
from fairqueue._stores.fleet import TakenSlot
from fairqueue._stores.row_readers import LetterAt
from fairqueue._stores.sharded import merges
from fairqueue.errors import ConfigurationError, StoreUnavailable
from fairqueue.operate import Operators
from fairqueue.rows import DeadFilter, Memory, QueueRow
from tests.operators import operators_of
from tests.shards.conftest import Both, put_away

WORKSPACES = [f"w{n}" for n in range(9)]


@pytest.fixture
def busy(both: Both) -> Both:
    """Nine workspaces on three shards: some jobs run, some wait, some are scheduled."""
    for n, name in enumerate(WORKSPACES):
        both.publish(name, f"{name}-runs", queue="r", task=f"t{n % 2}")
        both.run_all("r", f"owner{n}")
        both.clock.advance(1)
        both.publish(name, f"{name}-waits", queue="q", task="t0")
        both.publish(name, f"{name}-too", queue=f"q{n}", task="t2")
        both.publish(name, f"{name}-later", queue="q", task="t1", delay_seconds=60 + n)
    assert {both.sharded.home(name) for name in WORKSPACES} == set(both.sharded.shards)
    return both


def same(both: Both, read: str) -> tuple[Any, Any]:
    """What both say."""
    sharded, plain = both.admins
    return getattr(sharded.views, read)(), getattr(plain.views, read)()


def test_running_jobs_are_merged_by_their_start(busy: Both) -> None:
    """The longest of all shards come first; those of a filter are counted on each."""
    sharded, plain = busy.admins
    for where in ({}, {"task": "t1"}, {"queue": "r"}, {"workspace": "w4"}, {"worker": "owner3"}):
        found, wanted = (admin.views.running(n=4, **where) for admin in (sharded, plain))  # type: ignore[arg-type]
        assert [job.job_id for job in found.jobs] == [job.job_id for job in wanted.jobs]
        assert [job.seconds for job in found.jobs] == pytest.approx(
            [job.seconds for job in wanted.jobs], abs=0.01
        )
        assert found.total == wanted.total
    assert sharded.views.running(n=4).total == 9


def _all(admin: Operators, n: int, **where: str) -> list[str]:
    return list(chain.from_iterable(_pages(admin, n, **where)))


def _pages(admin: Operators, n: int, **where: str) -> Iterator[list[str]]:
    page = admin.views.waiting(n=n, **where)  # type: ignore[arg-type]
    yield [job.job_id for job in page.jobs]
    while page.cursor:
        page = admin.views.waiting(n=n, cursor=page.cursor, **where)  # type: ignore[arg-type]
        yield [job.job_id for job in page.jobs]


@pytest.mark.parametrize("n", [1, 3, 100])
def test_waiting_jobs_are_paged_shard_by_shard(busy: Both, n: int) -> None:
    """None is left out and none comes twice; those of a workspace come in their order."""
    for where in ({}, {"queue": "q"}, {"task": "t0"}, {"queue": "q5"}):
        found, wanted = (_all(admin, n, **where) for admin in busy.admins)
        assert sorted(found) == sorted(wanted) != []
    for name in WORKSPACES:
        found, wanted = (_all(admin, n, workspace=name) for admin in busy.admins)
        assert found == wanted != []


@pytest.mark.parametrize("cursor", ["63:", "-1:", "q#0000000005#1#9"])
def test_a_cursor_of_no_shard_is_refused(both: Both, cursor: str) -> None:
    """As one of a store with more shards is, or one of a workspace's jobs."""
    with pytest.raises(ConfigurationError, match="is not a cursor of this list"):
        both.sharded.waiting("q", cursor=cursor)


def test_queues_are_added_up(busy: Both) -> None:
    """What waits and runs on each shard; the last start is the latest."""
    sharded, plain = busy.admins

    def shown(row: QueueRow) -> QueueRow:
        return replace(row, last_start=None, idle_seconds=None)

    assert [*map(shown, sharded.views.queues())] == [*map(shown, plain.views.queues())]
    for found, wanted in zip(sharded.views.queues(), plain.views.queues(), strict=True):
        assert (found.last_start is None) == (wanted.last_start is None)
        if found.idle_seconds is not None:
            assert found.idle_seconds == pytest.approx(wanted.idle_seconds, abs=0.01)
    assert sharded.views.runnable("q") == plain.views.runnable("q")
    assert sharded.views.demand() == plain.views.demand()


def test_tasks_and_workers_are_merged_by_name(busy: Both) -> None:
    """Each comes once, with what it runs on all shards."""
    for world in busy.worlds:
        world.store.heartbeat("owner0", "celery@a", "fairqueue/1", queues=["q"], slots=2)
    tasks, same_tasks = same(busy, "tasks")
    assert tasks == same_tasks
    for found, wanted in zip(*same(busy, "workers"), strict=True):
        assert replace(found, last_seen=0, silent_seconds=0) == replace(
            wanted, last_seen=0, silent_seconds=0
        )
        assert found.silent_seconds == pytest.approx(wanted.silent_seconds, abs=0.01)


def test_why_finds_a_job_on_any_shard(busy: Both) -> None:
    """With or without its workspace; where it waits, workers of all shards are counted."""
    for world in busy.worlds:
        world.store.heartbeat("idle", "celery@a", "fairqueue/1", queues=["q"], slots=2)
    sharded, plain = busy.sharded, busy.plain

    def found(why: Why) -> tuple[object, ...]:
        seen = [replace(each.workers, last_seen=None) for each in why.positions]
        return why.state, why.workspace, why.waiting, why.running, why.blockers, seen

    for name in WORKSPACES:
        for job_id in (f"{name}-runs", f"{name}-waits", f"{name}-later"):
            for workspace in (None, name):
                ours, theirs = (
                    operators_of(store).views.why(job_id, workspace=workspace)
                    for store in (sharded, plain)
                )
                assert found(ours) == found(theirs)
    (waits,) = operators_of(sharded).views.why(job_id="w4-waits", queue="q").positions
    assert waits.workers.processes == 1
    unknown = operators_of(sharded).views.why(job_id="none")
    assert (unknown.state, unknown.workspace) == (JobState.UNKNOWN, None)


@pytest.mark.usefixtures("servers_apart")
def test_why_tells_of_a_job_though_another_shard_is_away(both: Both) -> None:
    """Whether it is unknown can be said by all of them only."""
    gone, *others = both.sharded.shards
    name = next(name for name in WORKSPACES if both.sharded.home(name) in others)
    both.publish(name, "x")
    both.run_all("q")

    put_away(gone)
    assert operators_of(both.sharded).views.why(job_id="x").workspace == name
    with pytest.raises(StoreUnavailable, match="away"):
        operators_of(both.sharded).views.why(job_id="y")


def test_leases_of_a_shard_stand_for_as_many_as_those_of_others() -> None:
    """Where only a part of one shard's leases was read, no more of another's count."""

    def some(n: int, name: str) -> list[TakenSlot]:
        return [TakenSlot("q", "o", name, None, "t", 1.0, None)] * n

    kept, n = merges.slots([(some(1000, "a"), 4000), (some(400, "b"), 400), ([], 0)])
    assert n == 4400
    assert [slot.workspace for slot in kept] == ["a"] * 1000 + ["b"] * 100
    assert merges.slots([([], 0)]) == ([], 0)


def test_stats_and_overview_are_those_of_one_store(busy: Both) -> None:
    """All workspaces, those that are named, and those with the most jobs."""
    for named in ((), ("w3", "w5", "unknown")):
        found, wanted = (store.snapshot(named) for store in (busy.sharded, busy.plain))
        assert found == wanted
    of_shards, of_one = (operators_of(store).views.stats() for store in (busy.sharded, busy.plain))
    assert (of_shards.workspaces, of_shards.queues) == (of_one.workspaces, of_one.queues)
    shown, expected = same(busy, "overview")
    for field in ("workspaces", "running", "queued", "known_workspaces", "is_complete"):
        assert getattr(shown, field) == getattr(expected, field)
    assert (
        busy.admins[0].views.overview(top=2).workspaces
        == busy.admins[1].views.overview(top=2).workspaces
    )


def test_a_sample_is_of_all_shards(both: Both) -> None:
    """Each by its part of the queue's jobs."""
    for n in range(30):
        both.publish("w0", f"many{n}")
    for name in WORKSPACES[1:]:
        both.publish(name, f"{name}-one")
    found = both.sharded.sample("q", 38)
    assert found == {"w0": 30, **dict.fromkeys(WORKSPACES[1:], 1)}
    assert sum(both.sharded.sample("q", 12).values()) in range(10, 15)
    assert not both.sharded.sample("none", 5)


def test_what_concerns_one_shard_is_refused(both: Both) -> None:
    """An auditor reads and mends the keys of one, and each has its own numbers of tasks."""
    store: Any = both.sharded
    for refused in (store.rebuild, store.index_tasks):
        with pytest.raises(TypeError, match=f"{refused.__name__} concerns one shard: ask each"):
            refused()


def _jobs(found: Iterator[LetterAt]) -> list[Job]:
    return [one.letter.job for one in found if one.letter]


def _places(found: Iterator[LetterAt]) -> list[str]:
    return [one.place for one in found if one.letter]


def test_dead_letters_come_in_one_order(both: Both) -> None:
    """By workspace, the one with the oldest letter first."""
    for n in (4, 1, 7, 4, 2):
        name = WORKSPACES[n]
        both.publish(name, f"{name}-{both.clock()}")
        for worker in both.workers():
            for lease in worker.take():
                worker.reject(lease)
        both.clock.advance(1)
    for choice in (DeadFilter(), DeadFilter(workspace="w1"), DeadFilter(since=both.clock() - 2)):
        found, wanted = (_jobs(s.choose_dead(choice)) for s in (both.sharded, both.plain))
        assert found == wanted != []
    (first, *_), rest = (_places(both.sharded.choose_dead(DeadFilter())) for _ in "12")
    from_there = both.sharded.choose_dead(DeadFilter(), cursor=first)
    assert _places(from_there) == rest[1:]


@pytest.mark.parametrize(
    ("servers", "shown"),
    [
        ([None, None, None], None),
        ([Memory(5, None), None, Memory(7, None)], Memory(7, None)),
        ([Memory(50, 100), Memory(90, 1000), Memory(500, None)], Memory(50, 100)),
    ],
)
def test_memory_is_that_of_the_fullest_server(
    both: Both,
    monkeypatch: pytest.MonkeyPatch,
    servers: list[Memory | None],
    shown: Memory | None,
) -> None:
    """It refuses publishes first; how much the others have left does not help its workspaces."""
    for shard, memory in zip(both.sharded.shards, servers, strict=True):
        monkeypatch.setattr(shard.engine, "memory", lambda memory=memory: memory)
    assert both.admins[0].views.memory() == shown


RETRY = "r" * 16 + "~task-1"


def test_a_job_is_found_on_its_shard_and_after_a_move(
    redis_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are its progress, its retry by the framework's id, and what its workers know."""
    monkeypatch.setattr("fairqueue._stores.sharded.mover.KNOWN_AFTER_SECONDS", 0.0)
    with FairQueue(redis_url, namespace=namespace, shards=3) as queue:
        queue.presence.describe("w", queues=lambda: ["q"], tasks=lambda: ["t"])
        for workspace in "abcdef":
            queue.publish(b"", queue="q", workspace=workspace, task="t", job_id="task-1")
        leases = queue.claim(["q"], 6).leases
        for lease in leases:
            name = lease.job.workspace
            assert queue.store.note_progress(lease.fence, name, "1 2 %")
            found = queue.job("task-1", workspace=name)
            assert found is not None
            assert found.progress is not None
            retry = NewJob(b"", "q", name, "t", delay_seconds=60, job_id=RETRY, exempt=True)
            retry.retry_of = lease.fence
            queue.publish_job(retry)
            queue.ack(lease)
        queue.doctor.reshard(5)
    with FairQueue(redis_url, namespace=namespace, shards=5) as queue:
        for workspace in "abcdef":
            found = queue.job("task-1", workspace=workspace)
            assert found is not None
            assert (found.state, found.job_id) == (JobState.SCHEDULED, RETRY)
        assert queue.job("task-1", workspace="z") is None
        assert queue.views.workers(gone=True)[0].tasks == ("t",)
        assert queue.doctor.audit() == []
