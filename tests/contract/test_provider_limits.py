"""Limits from a provider: their precedence, their effect, and when they are refreshed."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, FairQueue, Limit, Limits
from tests.contract.world import World

FRESH, FORGOTTEN = 60.0, 130.0


def due(world: World, n: int = 10) -> list[str]:
    """Return the workspaces whose provider limits are stale."""
    return world.store.stale_provider_limits(n=n, older_seconds=FRESH, forget_seconds=FORGOTTEN)


def test_provider_limits_rank_between_runtime_and_configured_ones(world: World) -> None:
    """Each limit is decided by itself and listed with its source."""
    configured = Limits(concurrency=1, capacity=9, weight=2.0)
    world.configure(provided=True, default=Limits(rate=9.0), workspaces={"a": configured})
    world.store.put_provider_limits("a", Limits(concurrency=2, capacity=8))
    world.limit("a", concurrency=3)
    queue = FairQueue(store=world.store, brings_limits=False)
    assert queue.admin.limits("a") == {
        "rate": Limit(9.0, "default"),
        "weight": Limit(2.0, "configured"),
        "capacity": Limit(8, "limit_provider"),
        "concurrency": Limit(3, "live"),
    }


@pytest.mark.parametrize("name", ["a", "org"])
def test_the_limit_in_force_is_enforced(world: World, name: str) -> None:
    """Runtime, provider, configured, default: this order holds for workspaces and their groups."""
    world.configure(
        provided=True,
        default=Limits(concurrency=9),
        workspaces={"org": Limits(concurrency=1), "a": Limits(concurrency=1)},
    )
    member = "a" if name == "a" else "eu"
    if name == "org":
        world.limit("eu", parent="org", concurrency=20)
    world.publish_many(20, member)
    worker = world.worker()
    leases = worker.take(20)
    assert len(leases) == 1
    world.store.put_provider_limits(name, Limits(concurrency=3))
    leases += worker.take(20)
    assert len(leases) == 3
    world.limit(name, concurrency=6)
    leases += worker.take(20)
    assert len(leases) == 6
    world.store.put_provider_limits(name, Limits(concurrency=8))
    assert worker.take(20) == []
    world.limit(name, concurrency=2)
    for lease in leases[:4]:
        worker.finish(lease)
    assert worker.take(20) == []


def test_a_changed_provider_limit_acts_on_the_backlog(world: World) -> None:
    """A raised one starts jobs, a lowered one drains, and 0 blocks."""
    world.store.put_provider_limits("a", Limits(concurrency=1))
    world.publish_many(9)
    worker = world.worker()
    leases = worker.take(5)
    assert len(leases) == 1
    assert world.store.put_provider_limits("a", Limits(concurrency=3))
    leases += worker.take(5)
    assert len(leases) == 3
    world.store.put_provider_limits("a", Limits(concurrency=0))
    for lease in leases:
        assert worker.finish(lease)
    assert worker.take(5) == []
    world.store.put_provider_limits("a", None)
    assert len(worker.take(9)) == 6


def test_a_capacity_from_a_provider_is_enforced(world: World) -> None:
    """It refuses publishes like a configured one."""
    world.store.put_provider_limits("a", Limits(capacity=1))
    world.publish()
    with pytest.raises(CapacityExceeded):
        world.publish()


def test_a_reserve_from_a_provider_is_used(world: World) -> None:
    """It acts like a configured one."""
    world.publish_many(9, "a")
    world.publish_many(9, "b")
    worker = world.worker()
    assert len(worker.take(4)) == 4
    world.store.put_provider_limits("c", Limits(reserve=2))
    world.publish_many(9, "c")
    assert [lease.job.workspace for lease in worker.take(2)] == ["c", "c"]


def test_limits_of_a_group_may_come_from_a_provider(world: World) -> None:
    """A workspace's group may come from it, too."""
    for name in "ab":
        world.store.put_provider_limits(name, Limits(parent="org"))
        world.publish_many(3, name)
    world.store.put_provider_limits("org", Limits(concurrency=2))
    worker = world.worker()
    assert len(worker.take(9)) == 2
    assert world.store.put_provider_limits("org", Limits(concurrency=5))
    assert len(worker.take(9)) == 3


def test_a_default_workspace_with_provider_limits_is_under_the_defaults(world: World) -> None:
    """The provider names it, as a configuration would."""
    world.configure(provided=True, default=Limits(concurrency=1))
    world.publish_many(4, "default")
    worker = world.worker()
    assert len(worker.take(3)) == 3
    world.store.put_provider_limits("default", Limits(weight=2.0))
    assert worker.take() == []


def test_a_waiting_workspace_is_refreshed_each_minute_by_one_process(world: World) -> None:
    """The first process that looks refreshes it; a changed answer is reported."""
    world.publish()
    assert world.store.put_provider_limits("a", Limits(concurrency=0))
    assert not world.store.put_provider_limits("a", Limits(concurrency=0))
    world.clock.advance(59)
    assert due(world) == []
    world.clock.advance(2)
    assert due(world) == ["a"]
    assert due(world) == []


def test_provider_limits_can_be_expired(world: World) -> None:
    """Then they are stale at once."""
    world.publish()
    assert not world.store.expire_provider_limits("a")
    world.store.put_provider_limits("a", None)
    assert world.store.expire_provider_limits("a")
    assert due(world) == ["a"]


def test_expired_limits_of_an_idle_workspace_are_asked_for_again(world: World) -> None:
    """Its next job starts with the new ones; one that was expired long ago is forgotten."""
    world.configure(provided=True)
    world.store.put_provider_limits("idle", Limits(concurrency=1))
    assert due(world) == []
    world.store.expire_provider_limits("idle")
    assert due(world) == ["idle"]

    world.store.put_provider_limits("idle", Limits(concurrency=0))
    world.store.expire_provider_limits("idle")
    world.clock.advance(FORGOTTEN)
    assert due(world) == []
    assert FairQueue(store=world.store, brings_limits=False).admin.limits("idle") == {}


def test_an_answer_from_before_the_expiry_stays_stale(world: World) -> None:
    """It applies but is refreshed again; an answer to a later request is fresh."""
    world.publish()
    world.store.put_provider_limits("a", None)
    world.clock.advance(10)
    world.store.expire_provider_limits("a")
    assert world.store.put_provider_limits("a", Limits(concurrency=5), age_seconds=3)
    assert due(world) == ["a"]
    world.store.expire_provider_limits("a")
    world.clock.advance(2)
    assert world.store.put_provider_limits("a", Limits(concurrency=6), age_seconds=1)
    assert due(world) == []


def test_a_late_answer_does_not_overwrite_a_newer_one(world: World) -> None:
    """The answer to the later request stays, even if it came first."""
    world.publish()
    world.store.put_provider_limits("a", None)
    world.store.expire_provider_limits("a")
    assert due(world) == ["a"]
    world.clock.advance(5)
    assert world.store.put_provider_limits("a", Limits(concurrency=0), age_seconds=4)
    assert not world.store.put_provider_limits("a", Limits(concurrency=9), age_seconds=6)
    assert world.worker().take() == []


def test_provider_limits_of_idle_workspaces_are_forgotten(world: World) -> None:
    """They go once every process must refresh them; a workspace with jobs keeps its own."""
    for name in "abc":
        world.store.put_provider_limits(name, Limits(concurrency=0))
    world.publish("b")
    world.clock.advance(100)
    assert due(world) == ["b"]
    world.clock.advance(31)
    assert due(world) == []
    world.publish("a")
    assert len(world.worker().take(5)) == 1
    assert not world.store.expire_provider_limits("c")


def test_provider_limits_end_with_the_provider(world: World) -> None:
    """They no longer apply once a worker without a provider stores its configuration."""
    world.configure(provided=True)
    world.store.put_provider_limits("a", Limits(concurrency=0))
    world.publish()
    assert not world.configure(default=Limits(capacity=5))
    assert world.worker("w1").take() == []
    world.configure(default=Limits(capacity=5), authoritative=True)
    worker = world.worker("w2")
    assert len(worker.take() + worker.take()) == 1
