"""Limits that a provider gives: where they count, how they act, and when they are asked again."""

from __future__ import annotations

import pytest

from fairqueue import CapacityExceeded, FairQueue, Limit, Limits
from tests.contract.world import World

FRESH, FORGOTTEN = 60.0, 130.0


def due(world: World, n: int = 10) -> list[str]:
    """Who must be asked for again."""
    return world.store.to_ask(n=n, older_seconds=FRESH, forget_seconds=FORGOTTEN)


def test_given_limits_stand_between_live_and_configured(world: World) -> None:
    """Each limit by itself, and the source is told."""
    configured = Limits(concurrency=1, capacity=9, weight=2.0)
    world.configure(provided=True, default=Limits(rate=9.0), workspaces={"a": configured})
    world.store.give_limits("a", Limits(concurrency=2, capacity=8))
    world.limit("a", concurrency=3)
    queue = FairQueue(store=world.store, brings_limits=False)
    assert queue.limits("a") == {
        "rate": Limit(9.0, "default"),
        "weight": Limit(2.0, "configured"),
        "capacity": Limit(8, "limit_provider"),
        "concurrency": Limit(3, "live"),
    }


@pytest.mark.parametrize("name", ["a", "org"])
def test_the_source_that_counts_is_the_one_that_holds(world: World, name: str) -> None:
    """Live before given before configured before default: of a workspace and of its group."""
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
    world.store.give_limits(name, Limits(concurrency=3))
    leases += worker.take(20)
    assert len(leases) == 3
    world.limit(name, concurrency=6)
    leases += worker.take(20)
    assert len(leases) == 6
    world.store.give_limits(name, Limits(concurrency=8))
    assert worker.take(20) == []
    world.limit(name, concurrency=2)
    for lease in leases[:4]:
        worker.finish(lease)
    assert worker.take(20) == []


def test_a_given_limit_holds_and_its_change_acts_on_the_backlog(world: World) -> None:
    """Raised it starts jobs, lowered it drains, 0 lets nothing start."""
    world.store.give_limits("a", Limits(concurrency=1))
    world.publish_many(9)
    worker = world.worker()
    leases = worker.take(5)
    assert len(leases) == 1
    assert world.store.give_limits("a", Limits(concurrency=3))
    leases += worker.take(5)
    assert len(leases) == 3
    world.store.give_limits("a", Limits(concurrency=0))
    for lease in leases:
        assert worker.finish(lease)
    assert worker.take(5) == []
    world.store.give_limits("a", None)
    assert len(worker.take(9)) == 6


def test_a_given_capacity_refuses(world: World) -> None:
    """As a configured one."""
    world.store.give_limits("a", Limits(capacity=1))
    world.publish()
    with pytest.raises(CapacityExceeded):
        world.publish()


def test_a_given_reserve_goes_first(world: World) -> None:
    """As a configured one."""
    world.publish_many(9, "a")
    world.publish_many(9, "b")
    worker = world.worker()
    assert len(worker.take(4)) == 4
    world.store.give_limits("c", Limits(reserve=2))
    world.publish_many(9, "c")
    assert [lease.job.workspace for lease in worker.take(2)] == ["c", "c"]


def test_a_group_s_limits_may_be_given(world: World) -> None:
    """And who belongs to it."""
    for name in "ab":
        world.store.give_limits(name, Limits(parent="org"))
        world.publish_many(3, name)
    world.store.give_limits("org", Limits(concurrency=2))
    worker = world.worker()
    assert len(worker.take(9)) == 2
    assert world.store.give_limits("org", Limits(concurrency=5))
    assert len(worker.take(9)) == 3


def test_a_given_default_workspace_is_under_the_defaults(world: World) -> None:
    """As one that is named in the configuration."""
    world.configure(provided=True, default=Limits(concurrency=1))
    world.publish_many(4, "default")
    worker = world.worker()
    assert len(worker.take(3)) == 3
    world.store.give_limits("default", Limits(weight=2.0))
    assert worker.take() == []


def test_who_waits_is_asked_for_again_each_minute_by_one(world: World) -> None:
    """Whoever looks first takes it; a change is told."""
    world.publish()
    assert world.store.give_limits("a", Limits(concurrency=0))
    assert not world.store.give_limits("a", Limits(concurrency=0))
    world.clock.advance(59)
    assert due(world) == []
    world.clock.advance(2)
    assert due(world) == ["a"]
    assert due(world) == []


def test_an_answer_may_be_called_old(world: World) -> None:
    """Then it is due at once."""
    world.publish()
    assert not world.store.ask_again("a")
    world.store.give_limits("a", None)
    assert world.store.ask_again("a")
    assert due(world) == ["a"]


def test_an_answer_from_before_it_was_called_old_does_not_make_it_fresh(world: World) -> None:
    """It counts, and is asked again; an answer to a later question makes it fresh."""
    world.publish()
    world.store.give_limits("a", None)
    world.clock.advance(10)
    world.store.ask_again("a")
    assert world.store.give_limits("a", Limits(concurrency=5), age_seconds=3)
    assert due(world) == ["a"]
    world.store.ask_again("a")
    world.clock.advance(2)
    assert world.store.give_limits("a", Limits(concurrency=6), age_seconds=1)
    assert due(world) == []


def test_a_late_answer_does_not_overwrite_a_newer_one(world: World) -> None:
    """Who asked first may be answered last."""
    world.publish()
    world.store.give_limits("a", None)
    world.store.ask_again("a")
    assert due(world) == ["a"]
    world.clock.advance(5)
    assert world.store.give_limits("a", Limits(concurrency=0), age_seconds=4)
    assert not world.store.give_limits("a", Limits(concurrency=9), age_seconds=6)
    assert world.worker().take() == []


def test_nothing_is_kept_of_who_has_nothing(world: World) -> None:
    """Once every process must ask again anyway; who has work is never forgotten."""
    for name in "abc":
        world.store.give_limits(name, Limits(concurrency=0))
    world.publish("b")
    world.clock.advance(100)
    assert due(world) == ["b"]
    world.clock.advance(31)
    assert due(world) == []
    world.publish("a")
    assert len(world.worker().take(5)) == 1
    assert not world.store.ask_again("c")


def test_without_a_provider_its_answers_count_no_longer(world: World) -> None:
    """Once a worker that has none brings its configuration."""
    world.configure(provided=True)
    world.store.give_limits("a", Limits(concurrency=0))
    world.publish()
    assert not world.configure(default=Limits(capacity=5))
    assert world.worker("w1").take() == []
    world.configure(default=Limits(capacity=5), authoritative=True)
    worker = world.worker("w2")
    assert len(worker.take() + worker.take()) == 1
