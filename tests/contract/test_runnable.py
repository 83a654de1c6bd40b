"""What of a queue could run now, for which workers are worth starting."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import Limits, Pause
from fairqueue.operate import Operators
from fairqueue.rows import Demand, Runnable
from tests.contract.world import Worker, World


def _now(admin: Operators, queue: str = "q") -> tuple[Any, ...]:
    found = admin.views.runnable(queue)
    assert found.is_complete
    return found.jobs, found.startable, found.oldest_seconds


def test_due_jobs_are_runnable(world: World, admin: Operators) -> None:
    """Scheduled ones and those of other queues are not; a running one has started."""
    assert _now(admin) == (0, 0, None)
    for n in range(3):
        world.publish("a", str(n), priority=n)
    world.publish("b", "later", delay_seconds=10)
    world.publish("b", "other", queue="r")
    world.worker().take()
    world.clock.advance(4)
    assert _now(admin) == (2, 2, pytest.approx(4, abs=0.01))
    world.clock.advance(8)
    world.reap()
    assert _now(admin) == (3, 3, pytest.approx(12, abs=0.01))


def test_a_workspace_at_its_limit_has_none(world: World, worker: Worker, admin: Operators) -> None:
    """Below it its jobs are runnable, and only the free slots could start."""
    world.limit("a", concurrency=2)
    world.publish_many(5, "a")
    assert _now(admin)[:2] == (5, 2)
    (lease, _) = worker.take(2)
    assert _now(admin) == (0, 0, None)
    world.clock.advance(5)
    worker.finish(lease)
    world.clock.advance(1)
    assert _now(admin) == (3, 1, pytest.approx(1, abs=0.01))


@pytest.mark.parametrize("scope", ["workspace", "task", "queue", "total"])
def test_what_is_paused_is_not_runnable(world: World, admin: Operators, scope: str) -> None:
    """Whatever is paused of it: such jobs wait for an operator."""
    name = {"workspace": "a", "task": "t", "queue": "q", "total": ""}[scope]
    world.publish_many(2, "a")
    world.store.pause(scope, name, Pause.PAUSED)
    assert world.worker().take() == []  # what waits in a lane of its own now, was moved there
    world.clock.advance(5)
    assert _now(admin) == (0, 0, None)
    world.store.pause(scope, name, None)
    assert _now(admin)[:2] == (2, 2)


def test_a_full_queue_or_total_has_none(world: World, admin: Operators) -> None:
    """Below these limits only as many could start as they leave."""
    world.publish_many(5, "a")
    world.publish_many(5, "b")
    world.store.set_limits("queue", "q", Limits(concurrency=3))
    assert _now(admin)[:2] == (10, 3)
    world.store.set_limits("total", "", Limits(concurrency=2))
    assert _now(admin)[:2] == (10, 2)
    world.worker().take(2)
    assert _now(admin) == (0, 0, None)


def test_a_task_s_limits_count(world: World, admin: Operators) -> None:
    """Of all workspaces together, and of each of them."""
    world.limit_task("t", concurrency=3)
    world.limit_task("v", workspace_concurrency=2)
    for name in "ab":
        world.publish_many(5, name, task="t")
        world.publish_many(5, name, task="v")
        world.publish_many(1, name, task="u")
    assert _now(admin)[:2] == (22, 3 + 2 * 2 + 2)
    world.worker().take(6)
    assert _now(admin)[1] == 9 - 6


def test_a_workspace_s_limit_counts_once(world: World, admin: Operators) -> None:
    """Where it stands in its queue's node and in that of a task, its free slots are not doubled."""
    world.limit_task("t", concurrency=10)
    world.limit("a", concurrency=3)
    world.publish_many(5, "a", task="t")
    world.publish_many(5, "a", task="u")
    assert _now(admin)[:2] == (10, 3)


def test_a_group_s_limit_counts(world: World, admin: Operators) -> None:
    """The workspaces of a group share its slots."""
    world.group("g", *"ab", jobs=4, concurrency=3)
    assert _now(admin)[:2] == (8, 3)
    world.worker().take(3)
    assert _now(admin) == (0, 0, None)


def test_a_rate_lets_a_burst_start(world: World, admin: Operators) -> None:
    """As many as it allows at this moment; then its workspace waits."""
    world.limit("a", rate=1, burst=3)
    world.publish_many(9, "a")
    assert _now(admin)[:2] == (9, 3)
    world.worker().take(2)
    assert _now(admin)[:2] == (7, 1)
    world.worker("w2").take(1)
    assert _now(admin) == (0, 0, None)


def test_observed_limits_hold_nothing_back(world: World, admin: Operators) -> None:
    """With enforce="observe" all could start."""
    world.limit("a", concurrency=1)
    world.configure(enforced=False)
    world.publish_many(4, "a")
    assert _now(admin)[:2] == (4, 4)


def test_cancelled_jobs_are_not_counted(world: World, admin: Operators) -> None:
    """A hole in a lane is no job."""
    ids = world.publish_many(4, "a")
    world.jobs.cancel(ids[1], queue="q")
    assert _now(admin)[:2] == (3, 3)


def test_many_workspaces_are_estimated(
    world: World, admin: Operators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 600 in line, parts from one end to the other are looked at: 500 of them."""
    for n in range(600):
        world.publish(f"w{n}", task=f"t{n % 3}")
    calls, call = [], world.store.engine.call

    def counted(operation: str, /, **arguments: Any) -> Any:
        calls.append(operation)
        return call(operation, **arguments)

    monkeypatch.setattr(world.store.engine, "call", counted)
    found = admin.views.runnable("q")
    assert (found.jobs, found.startable, found.is_complete) == (600, 600, False)
    assert len(calls) == 10


def test_members_of_a_large_node_are_estimated(world: World, admin: Operators) -> None:
    """Some of them stand for all, below the limit that they share."""
    world.limit_task("t", concurrency=70)
    for n in range(90):
        world.publish(f"w{n}", task="t")
    found = admin.views.runnable("q")
    assert (found.jobs, found.startable, found.is_complete) == (90, 70, False)


def test_a_damaged_record_is_passed(world: World, admin: Operators) -> None:
    """A look changes nothing: the next claim mends what it meets."""
    world.publish("a", "lost")
    world.publish("b", "kept")
    engine = world.store.engine
    world.command("HDEL", "workspaces", "a")
    before = sorted(engine.dump(), key=str)
    assert admin.views.runnable("q").jobs == 1
    assert sorted(engine.dump(), key=str) == before
    assert isinstance(admin.views.runnable("q"), Runnable)


def test_the_run_of_a_job_that_came_back_is_no_wait(world: World, admin: Operators) -> None:
    """Also where its workspace has been in line all the time, with jobs that wait 10 s each."""
    world.publish("a", "long")
    worker, others = world.worker(), world.worker("others")
    lease = worker.take_one()
    world.publish("a", "first")
    for _ in range(12):
        world.publish("a")
        others.finish(others.take_one())
        world.clock.advance(10)
        worker.renew(lease)
    worker.release(lease, counted=True)
    world.clock.advance(2)
    assert _now(admin)[2] == pytest.approx(12, abs=0.1)


def test_a_job_that_came_back_hides_no_longer_wait(world: World, admin: Operators) -> None:
    """It starts before those that have waited all the time, and has waited less."""
    world.publish_many(2, "a")
    worker = world.worker()
    lease = worker.take_one()
    world.clock.advance(20)
    worker.release(lease, counted=True)
    world.clock.advance(2)
    assert _now(admin)[2] == pytest.approx(22, abs=0.1)


def test_demand_is_what_runs_and_what_could_start(world: World, admin: Operators) -> None:
    """Beside the slots of the living workers; what a limit holds back is in neither."""
    world.limit("slow", concurrency=1)
    world.publish_many(5, "slow")
    world.publish_many(3, "b")
    world.publish(queue="mail")
    assert admin.views.demand()["q"] == Demand(startable=4, slots_wanted=4, worker_slots=0)
    world.store.heartbeat("w1", "", "", queues=["q", "mail"], slots=4)
    world.store.heartbeat("w2", "", "", queues=["q"], slots=2)
    world.worker("w1").take(2)
    wanted = admin.views.demand()
    assert (wanted["q"].slots_wanted, wanted["q"].worker_slots) == (4, 6)
    assert wanted["mail"] == Demand(startable=1, slots_wanted=1, worker_slots=4)
    world.store.heartbeat("w3", "", "", queues=["q"])
    assert admin.views.demand()["q"].worker_slots is None
    assert admin.views.demand()["mail"].worker_slots == 4
