"""The limits in force are listed with their sources."""

from __future__ import annotations

import pytest

from fairqueue import FairQueue, Limit, Limits, Scope, Settings
from fairqueue.adapters import settings_summary
from fairqueue.errors import ConfigurationError
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
    queue.limits.set(Scope.default(), capacity=60)
    queue.limits.set(Scope.workspace("a"), concurrency=5, rate="30/m")
    assert queue.limits.get(Scope.workspace("a")) == {
        "concurrency": Limit(5, "live"),
        "capacity": Limit(60, "live default"),
        "weight": Limit(2.0, "configured"),
        "rate": Limit(0.5, "live"),
    }
    assert queue.limits.get(Scope.workspace("b"))["parent"] == Limit("org: *", "configured")
    assert queue.limits.get(Scope.workspace("c")) == {
        "concurrency": Limit(3, "default"),
        "capacity": Limit(60, "live default"),
    }
    queue.limits.unset(Scope.workspace("a"))
    queue.limits.unset(Scope.default())
    assert queue.limits.get(Scope.workspace("a"))["concurrency"] == Limit(4, "configured")
    assert queue.limits.get(Scope.default())["capacity"] == Limit(50, "configured")


@pytest.mark.parametrize("given", [{}, {"capacity": None}, {"capacity": "none"}, {"burst": ""}])
def test_a_live_limit_without_a_value_removes_no_other(
    queue: FairQueue, given: dict[str, str | None]
) -> None:
    """They are removed by `unset` alone."""
    before = {"concurrency": Limit(5, "live"), "rate": Limit(2.0, "live")}
    queue.limits.set(Scope.workspace("a"), concurrency=5, rate=2)
    with pytest.raises(ConfigurationError, match="'unset' removes"):
        queue.limits.set(Scope.workspace("a"), **given)
    queue.limits.set(Scope.workspace("a"), concurrency=5, capacity=None)
    assert queue.limits.get(Scope.workspace("a")) == before


def test_a_clone_brings_limits_only_if_its_queue_does(world: World) -> None:
    """A tool's queue never stores what it was given, and neither does its clone."""
    given = Settings(workspace_concurrency=3)
    for brings, limits in ((False, {}), (True, {"concurrency": Limit(3, "default")})):
        queue = FairQueue(store=world.store, settings=given, brings_limits=brings)
        queue.clone().publish(b"", queue="q", workspace="a")
        assert queue.limits.get(Scope.workspace("a")) == limits


def test_the_line_of_a_worker_names_the_limits_in_force(world: World, queue: FairQueue) -> None:
    """Those of another process and live ones, too."""
    world.configure(default=Limits(concurrency=2), total=Limits(capacity=50, concurrency=8))
    queue.limits.set(Scope.default(), concurrency=4)
    settings = Settings.load({"queue_capacity": 9, "total_capacity": 50})
    line = settings_summary(FairQueue(store=world.store, settings=settings))
    assert "workspace_concurrency 4 (set live), queue_capacity 9, total_" in line
    assert "total_concurrency 8" in line


def test_the_default_workspace_is_under_no_default(world: World, queue: FairQueue) -> None:
    """The default limits are listed for it only if it has its own limits."""
    world.configure(default=Limits(concurrency=3))
    assert queue.limits.get(Scope.workspace("default")) == {}
    queue.limits.set(Scope.workspace("default"), weight=2.0)
    assert queue.limits.get(Scope.workspace("default"))["concurrency"] == Limit(3, "default")


def test_tasks_queues_and_the_total(world: World, queue: FairQueue) -> None:
    """Limits of tasks, queues and the total are listed with their sources."""
    world.configure(
        tasks={"t": Limits(concurrency=2)},
        queue_default=Limits(capacity=9),
        total=Limits(capacity=99),
    )
    queue.limits.set(Scope.task("t"), rate=2)
    queue.limits.set(Scope.queue("q"), concurrency=7)
    queue.limits.set(Scope.total(), concurrency=70)
    assert queue.limits.get(Scope.task("t")) == {
        "concurrency": Limit(2, "configured"),
        "rate": Limit(2.0, "live"),
    }
    assert queue.limits.get(Scope.task("never")) == {}
    assert queue.limits.get(Scope.queue("q")) == {
        "concurrency": Limit(7, "live"),
        "capacity": Limit(9, "default"),
    }
    assert queue.limits.get(Scope.total()) == {
        "concurrency": Limit(70, "live"),
        "capacity": Limit(99, "configured"),
    }
    for scope in (Scope.total(), Scope.queue("q")):
        queue.limits.unset(scope)
    assert queue.limits.get(Scope.queue("q")) == {"capacity": Limit(9, "default")}
    assert queue.limits.get(Scope.total()) == {"capacity": Limit(99, "configured")}
