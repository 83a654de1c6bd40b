"""Queues that have work take turns: the one that was served longest ago is next."""

from __future__ import annotations

from collections import Counter

import pytest

from fairqueue import Limits, Pause
from tests.contract.world import Worker, World


def _serve(worker: Worker, *queues: str, n: int = 1) -> list[str]:
    """Claim and finish; return the queues of the jobs in the order of their starts."""
    leases = worker.take(n, *queues)
    for lease in leases:
        worker.finish(lease, 1.0)
    return [lease.job.queue for lease in leases]


def _fill(world: World, n: int, *queues: str) -> None:
    for queue in queues:
        world.publish_many(n, queue=queue)


@pytest.mark.parametrize("others", range(4))
def test_any_rhythm_of_others_leaves_turns_even(world: World, others: int) -> None:
    """However many jobs others start between two turns, each queue gets the same number."""
    _fill(world, 40, "a", "b", "c")
    _fill(world, 40 * others, "z")
    worker, other = world.worker("w1"), world.worker("w2")
    served = Counter[str]()
    for _ in range(36):
        served.update(_serve(worker, "a", "b", "c"))
        _serve(other, "z", n=others)
    assert served == {"a": 12, "b": 12, "c": 12}


def test_one_claim_takes_turns_job_by_job(world: World) -> None:
    """Its jobs come from its queues in turn."""
    _fill(world, 4, "a", "b", "c")
    served = _serve(world.worker(), "a", "b", "c", n=9)
    assert served == served[:3] * 3
    assert set(served) == {"a", "b", "c"}


def test_the_next_claim_goes_on_where_the_last_one_ended(world: World) -> None:
    """It does, whichever worker comes and in whatever order it lists its queues."""
    _fill(world, 9, "a", "b", "c")
    served = _serve(world.worker("w1"), "a", "b", "c", n=2)
    served += _serve(world.worker("w2"), "c", "b", "a")
    assert set(served) == {"a", "b", "c"}
    assert _serve(world.worker("w3"), "b", "a", "c", n=3) == served


@pytest.mark.parametrize("how", ["paused", "full", "empty"])
def test_a_queue_earns_no_credit_while_it_gives_no_work(world: World, how: str) -> None:
    """Once it does again it is next, and then takes turns like the others."""
    worker = world.worker()
    _fill(world, 50, "a")
    _fill(world, 50 if how != "empty" else 0, "b")
    if how == "paused":
        world.store.pause("queue", "b", Pause.PAUSED)
    elif how == "full":
        world.store.set_limits("queue", "b", Limits(concurrency=0))
    assert [_serve(worker, "a", "b") for _ in range(20)] == [["a"]] * 20
    world.store.pause("queue", "b", None)
    world.store.set_limits("queue", "b", None)
    _fill(world, 10, "b")
    served = [queue for _ in range(6) for queue in _serve(worker, "a", "b")]
    assert served == ["b", "a"] * 3
