"""Limits from a provider: their precedence, their effect, and when they are forgotten."""

from __future__ import annotations

import pytest

from fairqueue import FairQueue, Limit, Limits, Scope
from fairqueue.audit import audit
from tests.contract.world import Worker, World


def test_provider_limits_rank_between_runtime_and_configured_ones(world: World) -> None:
    """Each limit is decided by itself and listed with its source."""
    configured = Limits(concurrency=1, capacity=9, weight=2.0)
    world.configure(provided=True, default=Limits(rate=9.0), workspaces={"a": configured})
    world.store.put_provider_limits("a", Limits(concurrency=2, capacity=8))
    world.limit("a", concurrency=3)
    queue = FairQueue(store=world.store, brings_limits=False)
    assert queue.limits.get(Scope.workspace("a")) == {
        "rate": Limit(9.0, "default"),
        "weight": Limit(2.0, "configured"),
        "capacity": Limit(8, "limit_provider"),
        "concurrency": Limit(3, "live"),
    }


@pytest.mark.parametrize("name", ["a", "org"])
def test_the_limit_in_force_is_enforced(world: World, worker: Worker, name: str) -> None:
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


def test_limits_of_a_group_may_come_from_a_provider(world: World, worker: Worker) -> None:
    """A workspace's group may come from it, too."""
    for name in "ab":
        world.store.put_provider_limits(name, Limits(parent="org"))
        world.publish_many(3, name)
    world.store.put_provider_limits("org", Limits(concurrency=2))
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


def test_an_unchanged_answer_changes_nothing(world: World) -> None:
    """The call says so."""
    assert world.store.put_provider_limits("a", Limits(concurrency=0))
    assert not world.store.put_provider_limits("a", Limits(concurrency=0))


def test_a_late_answer_does_not_overwrite_a_newer_one(world: World) -> None:
    """The answer to the later call stays, even if it came first."""
    world.publish()
    world.store.put_provider_limits("a", None)
    world.clock.advance(10)
    assert world.store.put_provider_limits("a", Limits(concurrency=0), age_seconds=4)
    assert not world.store.put_provider_limits("a", Limits(concurrency=9), age_seconds=6)
    assert world.worker().take() == []


def test_old_answers_for_idle_workspaces_are_forgotten(world: World) -> None:
    """A workspace with jobs keeps its own, however many are old, until it has no jobs."""
    busy, idle = [f"busy{n}" for n in range(9)], [f"idle{n}" for n in range(9)]
    for name in busy + idle:
        world.store.put_provider_limits(name, Limits(concurrency=0))
    for name in busy:
        world.publish(name)

    def limited() -> list[str]:
        queue = FairQueue(store=world.store, brings_limits=False)
        return [name for name in busy + idle if queue.limits.get(Scope.workspace(name))]

    world.clock.advance(3599)
    world.store.put_provider_limits("other", None)
    assert limited() == busy + idle
    world.clock.advance(2)
    for _ in range(3):
        world.store.put_provider_limits("other", None)
    assert limited() == busy
    world.publish("idle0")
    assert [lease.job.workspace for lease in world.worker().take(5)] == ["idle0"]


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


def test_members_of_a_group_that_a_provider_knew_leave_with_it(world: World) -> None:
    """Its own answer is forgotten first, and its order is looked at before theirs are."""
    world.configure(provided=True, authoritative=True)
    world.publish("default")
    for name in ("a", "default"):
        world.store.put_provider_limits(name, Limits(parent="a", concurrency=2))
        world.clock.advance(0.01)
    world.configure(provided=False, authoritative=True, default=Limits(concurrency=1))
    assert audit(world.store.engine, now=world.clock()) == []
