"""Which limits are in force, and from where each comes."""

from __future__ import annotations

import pytest

from fairqueue import FairQueue, Limit, Limits
from tests.contract.world import World


@pytest.fixture
def queue(world: World) -> FairQueue:
    """The public face over the same store; it brings no limits."""
    return FairQueue(store=world.store, brings_limits=False)


def test_the_later_source_counts(world: World, queue: FairQueue) -> None:
    """Live before configured, own before default; each limit by itself."""
    world.configure(
        default=Limits(concurrency=3, capacity=50),
        workspaces={"a": Limits(concurrency=4, weight=2.0), "b": Limits(parent="org: *")},
    )
    queue.set_default_limits(capacity=60)
    queue.set_limits("a", concurrency=5, rate="30/m")
    assert queue.limits("a") == {
        "concurrency": Limit(5, "live"),
        "capacity": Limit(60, "live default"),
        "weight": Limit(2.0, "configured"),
        "rate": Limit(0.5, "live"),
    }
    assert queue.limits("b")["parent"] == Limit("org: *", "configured")
    assert queue.limits("c") == {
        "concurrency": Limit(3, "default"),
        "capacity": Limit(60, "live default"),
    }
    queue.unset_limits("a")
    queue.unset_default_limits()
    assert queue.limits("a")["concurrency"] == Limit(4, "configured")
    assert queue.default_limits()["capacity"] == Limit(50, "configured")


def test_the_default_workspace_is_under_no_default(world: World, queue: FairQueue) -> None:
    """Unless it has limits of its own."""
    world.configure(default=Limits(concurrency=3))
    assert queue.limits("default") == {}
    queue.set_limits("default", weight=2.0)
    assert queue.limits("default")["concurrency"] == Limit(3, "default")


def test_tasks_queues_and_the_total(world: World, queue: FairQueue) -> None:
    """Each has its own."""
    world.configure(
        tasks={"t": Limits(concurrency=2)},
        queue_default=Limits(capacity=9),
        total=Limits(capacity=99),
    )
    queue.set_task_limits("t", rate=2)
    queue.set_queue_limits("q", concurrency=7)
    queue.set_total_limits(concurrency=70)
    assert queue.task_limits("t") == {
        "concurrency": Limit(2, "configured"),
        "rate": Limit(2.0, "live"),
    }
    assert queue.task_limits("never") == {}
    assert queue.queue_limits("q") == {
        "concurrency": Limit(7, "live"),
        "capacity": Limit(9, "default"),
    }
    assert queue.total_limits() == {
        "concurrency": Limit(70, "live"),
        "capacity": Limit(99, "configured"),
    }
    for unset in (queue.unset_total_limits, lambda: queue.unset_queue_limits("q")):
        unset()
    assert queue.queue_limits("q") == {"capacity": Limit(9, "default")}
    assert queue.total_limits() == {"capacity": Limit(99, "configured")}


def test_live_limits_of_a_queue_and_the_total_hold(world: World, queue: FairQueue) -> None:
    """At once, for what waits already."""
    world.publish_many(5)
    queue.set_queue_limits("q", concurrency=3)
    worker = world.worker()
    assert len(worker.take(9)) == 3
    queue.unset_queue_limits("q")
    queue.set_total_limits(concurrency=4)
    assert len(worker.take(9)) == 1
