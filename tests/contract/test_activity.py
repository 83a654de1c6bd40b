"""What happened to jobs, by minute and by hour, as processes send it and as the store sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairqueue import CapacityExceeded, ConfigurationError, FairQueue, Job, Scope
from fairqueue._activity import OTHER, Happened
from fairqueue._process_metrics import Tally
from fairqueue._reports import Activity
from fairqueue._settings import Settings
from fairqueue._stores.engine import Entry
from fairqueue.operate import Operators
from tests.contract.world import World, sound

ODD = "a b|c\n%:{1}*"


@pytest.fixture
def queue(world: World) -> FairQueue:
    """A process that publishes and works."""
    return FairQueue(settings=Settings.load({}), store=world.store)


def test_a_short_job_is_seen(world: World, queue: FairQueue, admin: Operators) -> None:
    """However short: its start, its wait, its worker-seconds and its end, by each of its names."""
    queue.publish(b"", queue="q", workspace=ODD, task="t")
    world.clock.advance(7)
    (lease,) = queue.claim(["q"]).leases
    queue.ack(lease, seconds=0.02)
    assert admin.activity.table() == []
    queue.note_stop()
    (row,) = admin.activity.table()
    assert (row.name, row.starts, row.ends, row.worker_seconds) == (ODD, 1, 1, 0.02)
    assert row.seconds == 3600
    assert 5 < (row.wait(0.5) or 0) <= 30
    assert [row.name for row in admin.activity.table("queue")] == ["q"]
    assert [row.name for row in admin.activity.table("task", of=[Scope.workspace(ODD)])] == ["t"]
    assert admin.activity.table(of=[Scope.task("other")]) == []
    assert [row.starts for row in admin.activity.series()] == [0] * 59 + [1]
    sound(world)


def test_what_goes_wrong_is_counted(world: World, queue: FairQueue, admin: Operators) -> None:
    """A failed run, a rejected publish, a dead letter, and a lease that expired."""
    queue.limits.set(Scope.workspace("a"), capacity=2)
    for _ in range(2):
        queue.publish(b"", queue="q", workspace="a")
    with pytest.raises(CapacityExceeded):
        queue.publish(b"", queue="q", workspace="a")
    one, two = queue.claim(["q"], 2).leases
    queue.tally.ran(one.job, "failed", 0.1)
    queue.tally.ran(two.job, "ignored", 0.1)
    queue.reject(one, reason="bad")
    world.max_deliveries = 1
    world.pass_time(40)
    queue.note_stop()
    (row,) = admin.activity.table()
    assert (row.starts, row.ends, row.failures, row.rejections) == (2, 0, 1, 1)
    assert (row.dead, row.expiries) == (2, 1)
    assert two.job.workspace == row.name
    sound(world)


def test_running_jobs_work_as_time_goes_on(
    world: World, queue: FairQueue, admin: Operators
) -> None:
    """Renewals tell of their worker-seconds; the end adds only what is left."""
    queue.publish(b"", queue="q", workspace="a")
    (lease,) = queue.claim(["q"]).leases
    queue.renew([(lease.fence, 10.0)])
    queue.note_stop()
    world.clock.advance(60)
    queue.ack(lease, seconds=12.5)
    queue.note_stop()
    assert [row.worker_seconds for row in admin.activity.series()][-2:] == [10.0, 2.5]


def _windows(world: World) -> list[Entry]:
    return [entry for entry in world.store.engine.dump() if b":activity:" in entry.key]


def _send(world: World, starts: int, workspace: str = "a", task: str = "t") -> None:
    counts = [starts, *[0] * 6, starts, *[0] * 7]
    for seconds in (60, 3600):
        world.store.add_activity(seconds, [((workspace, "q", task), counts)])


def test_minutes_become_hours(world: World, admin: Operators) -> None:
    """Up to three hours are read by minute, up to eight days by hour; older ones have gone."""
    _send(world, 1)
    world.clock.advance(3600)
    _send(world, 2)
    _send(world, 3)
    assert [row.starts for row in admin.activity.series()][-1] == 5
    assert sum(row.starts for row in admin.activity.series(since=7260)) == 6
    hours = admin.activity.series(since=4 * 3600)
    assert [row.starts for row in hours] == [0, 0, 1, 5]
    assert {row.seconds for row in hours} == {3600}
    world.clock.advance(4 * 3600)
    assert [row.starts for row in admin.activity.series()] == [0] * 60
    assert all(entry.expires for entry in _windows(world))
    for since in (0, 9 * 86_400):
        with pytest.raises(ConfigurationError, match="8 days"):
            admin.activity.series(since=since)


def test_a_window_is_bounded(world: World, admin: Operators) -> None:
    """Whatever the names: the busiest keep rows of their own, and the sums stay."""
    for n in range(700):
        _send(world, 1, f"w{n}", f"t{n}")
        if n % 50 == 0:
            _send(world, 30, "noisy")
    assert len(_windows(world)) == 2
    assert all(100 <= len(entry.value) <= 200 for entry in _windows(world))
    rows = admin.activity.table()
    assert (rows[0].name, rows[0].starts) == ("noisy", 14 * 30)
    assert rows[-1].name is OTHER
    assert sum(row.starts for row in rows) == 14 * 30 + 700
    (queue,) = admin.activity.table("queue")
    assert queue == replace(queue, name="q", starts=14 * 30 + 700)
    sound(world)


def test_a_damaged_row_is_left_out(world: World, admin: Operators) -> None:
    """The others are there, and the next ones are added."""
    _send(world, 1)
    for entry in _windows(world):
        world.store.engine.command("HSET", entry.key, "nonsense", "x", "a q t", "1 x")
    assert admin.activity.table() == []
    _send(world, 1)
    assert [row.name for row in admin.activity.table()] == ["a"]


@pytest.mark.parametrize(
    ("jobs", "tasks", "rows"),
    [
        (1500, 1, {(OTHER, OTHER, OTHER): 500, (OTHER, "q", "t0"): 970}),
        (500, 500, {(OTHER, "q", OTHER): 470}),
    ],
)
def test_a_process_sends_few_rows(jobs: int, tasks: int, rows: dict[Any, int]) -> None:
    """Where jobs are hardly more than rows, most workspaces are joined; of many tasks, these."""
    tally = Tally(0)
    for n in range(jobs):
        tally.ran(Job(str(n), f"w{n}", "q", f"t{n % tasks}", b""), "failed", 0.1)
    sent: list[Happened] = []
    tally.send_activity(lambda _, happened: sent.append(happened), now=True)
    minute, hour = sent
    assert minute == hour
    assert len(minute) == 30 + len(rows)
    assert {names: counts[2] for names, counts in minute if names in rows} == rows


def test_the_wait_of_a_part() -> None:
    """Within a bucket it grows evenly; beyond the last bound it is that."""
    row = Activity(None, 0, 60, 4, 0, 0, 0, 0, 0, 0.0, (0, 2, 0, 0, 0, 0, 1, 1))
    assert (row.wait(0.25), row.wait(0.5), row.wait(1)) == (0.1**0.5, 1.0, 3600.0)
    assert row.wait(0.75) == 3600.0
