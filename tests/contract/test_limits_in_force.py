"""The limits in force are listed with their sources."""

from __future__ import annotations

import pytest

from fairqueue import FairQueue, Limit, Limits
from tests.contract.world import World


@pytest.fixture
def queue(world: World) -> FairQueue:
    """A queue on the same store, without configured limits."""
    return FairQueue(store=world.store, brings_limits=False)


def test_the_stronger_source_is_listed(world: World, queue: FairQueue) -> None:
    """Runtime limits override configured ones and own limits the default, each limit by itself."""
    world.configure(
        default=Limits(concurrency=3, capacity=50),
        workspaces={"a": Limits(concurrency=4, weight=2.0), "b": Limits(parent="org: *")},
    )
    queue.admin.set_default_limits(capacity=60)
    queue.admin.set_limits("a", concurrency=5, rate="30/m")
    assert queue.admin.limits("a") == {
        "concurrency": Limit(5, "live"),
        "capacity": Limit(60, "live default"),
        "weight": Limit(2.0, "configured"),
        "rate": Limit(0.5, "live"),
    }
    assert queue.admin.limits("b")["parent"] == Limit("org: *", "configured")
    assert queue.admin.limits("c") == {
        "concurrency": Limit(3, "default"),
        "capacity": Limit(60, "live default"),
    }
    queue.admin.unset_limits("a")
    queue.admin.unset_default_limits()
    assert queue.admin.limits("a")["concurrency"] == Limit(4, "configured")
    assert queue.admin.default_limits()["capacity"] == Limit(50, "configured")


def test_the_default_workspace_is_under_no_default(world: World, queue: FairQueue) -> None:
    """The default limits are listed for it only if it has its own limits."""
    world.configure(default=Limits(concurrency=3))
    assert queue.admin.limits("default") == {}
    queue.admin.set_limits("default", weight=2.0)
    assert queue.admin.limits("default")["concurrency"] == Limit(3, "default")


def test_tasks_queues_and_the_total(world: World, queue: FairQueue) -> None:
    """Limits of tasks, queues and the total are listed with their sources."""
    world.configure(
        tasks={"t": Limits(concurrency=2)},
        queue_default=Limits(capacity=9),
        total=Limits(capacity=99),
    )
    queue.admin.set_task_limits("t", rate=2)
    queue.admin.set_queue_limits("q", concurrency=7)
    queue.admin.set_total_limits(concurrency=70)
    assert queue.admin.task_limits("t") == {
        "concurrency": Limit(2, "configured"),
        "rate": Limit(2.0, "live"),
    }
    assert queue.admin.task_limits("never") == {}
    assert queue.admin.queue_limits("q") == {
        "concurrency": Limit(7, "live"),
        "capacity": Limit(9, "default"),
    }
    assert queue.admin.total_limits() == {
        "concurrency": Limit(70, "live"),
        "capacity": Limit(99, "configured"),
    }
    for unset in (queue.admin.unset_total_limits, lambda: queue.admin.unset_queue_limits("q")):
        unset()
    assert queue.admin.queue_limits("q") == {"capacity": Limit(9, "default")}
    assert queue.admin.total_limits() == {"capacity": Limit(99, "configured")}


def test_runtime_limits_of_a_queue_and_the_total_hold(world: World, queue: FairQueue) -> None:
    """They hold at once for waiting jobs."""
    world.publish_many(5)
    queue.admin.set_queue_limits("q", concurrency=3)
    worker = world.worker()
    assert len(worker.take(9)) == 3
    queue.admin.unset_queue_limits("q")
    queue.admin.set_total_limits(concurrency=4)
    assert len(worker.take(9)) == 1
