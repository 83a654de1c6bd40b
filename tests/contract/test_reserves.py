"""Reserved slots: who runs below its reserve goes first; what it does not use is lent."""

from __future__ import annotations

import pytest

from fairqueue import ConfigurationError, Lease, Limits, Pause
from tests.contract.world import Worker, World


def whose(leases: list[Lease]) -> str:
    """The workspaces, in the order of their starts."""
    return "".join(lease.job.workspace for lease in leases)


def end(world: World, worker: Worker, leases: list[Lease], seconds: float = 1.0) -> None:
    """These jobs end after so long."""
    world.clock.advance(seconds)
    for lease in leases:
        assert worker.finish(lease, seconds)


def test_who_is_below_its_reserve_goes_first(world: World) -> None:
    """Two of its jobs start before all that waited longer; its third one waits for its turn."""
    world.publish_many(9, "a")
    world.publish_many(9, "b")
    world.limit("c", reserve=2)
    worker = world.worker()
    end(world, worker, worker.take(4))
    world.publish_many(9, "c")
    started = whose(worker.take(8))
    assert started[:2] == "cc"
    assert set(started[2:5]) == {"a", "b", "c"}


def test_it_comes_back_with_the_next_slot(world: World) -> None:
    """While others have all slots, the first that is free is for who has them reserved."""
    world.limit("r", reserve=2)
    world.publish_many(20, "a")
    world.publish_many(20, "b")
    worker = world.worker()
    lent = worker.take(8)
    assert set(whose(lent)) == {"a", "b"}
    world.publish_many(3, "r")
    end(world, worker, lent[:1])
    assert whose(worker.take(1)) == "r"
    end(world, worker, lent[1:2])
    assert whose(worker.take(1)) == "r"
    end(world, worker, lent[2:3])
    assert whose(worker.take(1)) in {"a", "b", "r"}


def test_what_is_not_used_is_lent(world: World) -> None:
    """A reserve without jobs keeps no slot idle."""
    world.limit("r", reserve=5)
    world.publish_many(8, "a")
    assert whose(world.worker().take(8)) == "a" * 8


def test_several_below_their_reserves_share_as_ever(world: World) -> None:
    """Among those it is the fair order, by weight; others start when none is left."""
    for name, weight in (("x", 3.0), ("y", 1.0)):
        world.limit(name, reserve=1, weight=weight)
        world.publish_many(200, name)
    world.publish_many(50, "a")
    worker, turns = world.worker(), ""
    for _ in range(80):
        leases = worker.take(1)
        turns += whose(leases)
        end(world, worker, leases)
    assert turns.count("a") == 0
    assert 56 <= turns.count("x") <= 64


def test_a_reserve_is_paid_for_but_not_for_ever(world: World) -> None:
    """It has had more than its share for long; without its reserve it waits eight steps at most."""
    world.limit("r", reserve=1)
    for name in "rabc":
        world.publish_many(400, name)
    worker = world.worker()
    for _ in range(200):
        leases = worker.take(2)
        assert "r" in whose(leases)
        end(world, worker, leases)
    world.limit("r", reserve=0)
    turns = ""
    for _ in range(60):
        leases = worker.take(1)
        turns += whose(leases)
        end(world, worker, leases)
    assert 8 <= turns.index("r") <= 8 * 3 + 3
    assert 6 <= turns.count("r") <= 15


def test_nobody_else_loses_its_place(world: World) -> None:
    """Beside a reserve the others share what is left by their weights, a newcomer too."""
    world.limit("r", reserve=1)
    world.limit("b", weight=3)
    for name in ("r", "a", "b"):
        world.publish_many(400, name)
    worker, turns = world.worker(), ""
    for n in range(80):
        if n == 40:
            world.publish_many(400, "new")
        leases = worker.take(2)
        turns += whose(leases)
        end(world, worker, leases)
    assert turns[:80].count("r") == 40
    assert 28 <= turns[:80].count("b") <= 32
    assert 6 <= turns[80:].count("new") <= 11


def test_it_holds_over_several_queues(world: World) -> None:
    """A free slot is for who is below its reserve, whichever of its worker's queues he is on."""
    world.limit("r", reserve=2)
    world.publish_many(9, "a", queue="q1")
    world.publish_many(9, "a", queue="q2")
    world.publish_many(3, "r", queue="q2")
    worker = world.worker()
    assert whose(worker.take(3, "q1", "q2"))[:2] == "rr"
    assert whose(worker.take(1, "q1")) == "a"


@pytest.mark.parametrize("how", ["paused", "full", "rate", "queue"])
def test_it_breaks_no_limit(world: World, how: str) -> None:
    """Who may not start does not, and others do."""
    world.limit("r", reserve=3)
    if how == "paused":
        world.store.pause("workspace", "r", Pause.PAUSED)
    elif how == "full":
        world.limit_task("t", concurrency=0)
    elif how == "rate":
        world.limit("r", rate=0.001, burst=1)
    else:
        world.store.pause("queue", "elsewhere", Pause.PAUSED)
    world.publish_many(5, "r", queue="elsewhere" if how == "queue" else "q")
    world.publish_many(5, "a", task="u")
    started = whose(world.worker().take(4, "q", "elsewhere"))
    assert started == ("raaa" if how == "rate" else "aaaa")


def test_it_goes_first_inside_a_task_and_a_group(world: World) -> None:
    """The node that it is in goes first with it."""
    world.configure(workspaces={"org": Limits(weight=0.01), "r": Limits(parent="org", reserve=1)})
    world.limit_task("t", concurrency=50)
    world.publish_many(9, "a", task="u")
    world.publish_many(9, "a", task="t")
    worker = world.worker()
    end(world, worker, worker.take(6))
    world.publish_many(3, "r", task="t")
    assert whose(worker.take(2)) == "ra"


def test_it_acts_at_once_and_goes_at_once(world: World) -> None:
    """Set live, raised, taken away: each counts for the next claim, also for what waits."""
    world.publish_many(30, "a")
    world.publish_many(30, "r")
    worker = world.worker()
    world.limit("r", reserve=2)
    assert whose(worker.take(2)) == "rr"
    world.limit("r", reserve=4)
    assert whose(worker.take(2)) == "rr"
    world.store.set_limits("workspace", "r", None)
    assert whose(worker.take(4)) == "aaaa"


def test_the_turns_ahead_are_told_as_they_come(world: World) -> None:
    """Who goes first has nobody ahead, and is ahead of the others."""
    world.publish_many(5, "a")
    world.publish_many(5, "b")
    worker = world.worker()
    end(world, worker, worker.take(4))
    world.limit("r", reserve=1)
    world.publish_many(2, "r")

    def ahead(name: str) -> int:
        (line,) = world.store.why(workspace=name, job_id=None, queue=None).lines
        return line.turns_ahead

    assert ahead("r") == 0
    assert sorted(map(ahead, "ab")) == [1, 2]


def test_a_configured_one_counts(world: World) -> None:
    """As any other limit of a workspace."""
    world.configure(workspaces={"r": Limits(reserve=1)})
    world.publish_many(5, "a")
    world.publish_many(5, "r")
    assert whose(world.worker().take(1)) == "r"
    world.configure(workspaces={"b": Limits(reserve=1)}, authoritative=True)
    world.publish_many(5, "b")
    assert whose(world.worker("w2").take(1)) == "b"


def test_more_than_it_may_run_is_refused(world: World) -> None:
    """Beside its own concurrency or the default one; nothing is changed then."""
    world.configure(default=Limits(concurrency=3))
    world.limit("r", reserve=2)
    with pytest.raises(ConfigurationError, match="would be 4, above its concurrency of 3"):
        world.limit("r", reserve=4, weight=7.0)
    world.limit("r", concurrency=5, reserve=4)
    with pytest.raises(ConfigurationError, match="would be 6, above its concurrency of 5"):
        world.limit("r", reserve=6)
    world.limit("r", concurrency=1)  # an operator may always throttle
    world.publish_many(3, "r")
    assert whose(world.worker().take(3)) == "r"
