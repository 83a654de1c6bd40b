"""A place of a full queue or total that becomes free goes to a workspace with fewer jobs there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from fairqueue import CapacityExceeded, Job, Limits
from fairqueue._types import Admission
from tests.contract.world import Worker, World

SetLimit = Callable[[World, int], None]
KEPT_SECONDS = 5.0
FLOODS = [f"flood {n}" for n in range(16)]
CAPACITY = 68
EQUAL_PART = CAPACITY // (len(FLOODS) + 1)


def _set_total(world: World, n: int) -> None:
    world.store.set_limits("total", "", Limits(capacity=n))


def _set_queue(world: World, n: int) -> None:
    world.store.set_limits("queue", "q", Limits(capacity=n))


@pytest.fixture(params=[_set_queue, _set_total], ids=["queue", "total"])
def limit(request: pytest.FixtureRequest) -> SetLimit:
    """Set the capacity of one of the scopes that several workspaces share."""
    found: SetLimit = request.param
    return found


def _refusal(world: World, workspace: str, **how: float) -> CapacityExceeded | None:
    try:
        world.publish(workspace, **how)  # type: ignore[arg-type]
    except CapacityExceeded as error:
        return error
    return None


def _flood(world: World) -> int:
    """Let each flooding workspace publish until it is refused; return how many jobs got in."""
    accepted = 0
    left = list(FLOODS)
    while left:
        for workspace in list(left):
            if _refusal(world, workspace) is None:
                accepted += 1
            else:
                left.remove(workspace)
    assert world.store.depth("q") <= CAPACITY
    return accepted


def _free(world: World, worker: Worker, n: int = 1) -> None:
    for lease in worker.take(n):
        worker.finish(lease, 0.1)


def _together(workspace: str, n: int, ids: count[int]) -> list[tuple[Job, Admission]]:
    name = f"g{next(ids)}"
    return [
        (Job(f"{name} {next(ids)}", workspace, "q", "t", b""), Admission(group=name))
        for _ in range(n)
    ]


def test_a_flood_leaves_a_calm_workspace_its_part(world: World, limit: SetLimit) -> None:
    """Sixteen try again whenever a place is freed; the calm one is refused once, then gets in."""
    limit(world, CAPACITY)
    worker = world.worker()
    assert _flood(world) == CAPACITY
    refused = 0
    for _ in range(4):
        is_below = world.row("calm").waiting < EQUAL_PART
        if _refusal(world, "calm") and is_below:
            refused += 1
            _free(world, worker)
            world.clock.advance(KEPT_SECONDS - 1)
            _flood(world)
            assert _refusal(world, "calm") is None
        for _ in range(len(FLOODS) // 2):
            world.clock.advance(0.5)
            _free(world, worker)
            _flood(world)
    assert refused > 1


def test_equal_workspaces_take_turns(world: World, worker: Worker, limit: SetLimit) -> None:
    """Where a part is less than a place, a place goes to the one that was refused first."""
    limit(world, 1)
    world.publish("a")
    for _ in range(3):
        assert _refusal(world, "calm")
        assert _refusal(world, "a")
        _free(world, worker)
        assert _refusal(world, "a")
        assert _refusal(world, "calm") is None
        assert _refusal(world, "a")
        assert _refusal(world, "calm")
        _free(world, worker)
        assert _refusal(world, "calm")
        assert _refusal(world, "a") is None


def test_floods_share_the_capacity_equally(world: World, limit: SetLimit) -> None:
    """One that has filled it alone goes down to its part as places become free."""
    limit(world, 12)
    worker, floods = world.worker(), ("a", "b", "c")
    world.publish_many(12, "a")
    for _ in range(36):
        for workspace in floods:
            while _refusal(world, workspace) is None:
                pass
        _free(world, worker)
        world.clock.advance(0.5)
    waiting = [world.row(workspace).waiting for workspace in floods]
    assert min(waiting) >= 3, waiting
    assert max(waiting) <= 5, waiting


def test_no_place_is_kept_for_one_that_is_gone(world: World, limit: SetLimit) -> None:
    """After a few seconds the others have the whole capacity again; the refusal says why not."""
    limit(world, 3)
    world.publish_many(3, "a")
    assert _refusal(world, "calm")
    _free(world, world.worker())
    error = _refusal(world, "a")
    assert error is not None
    assert (error.waiting, error.limit, error.kept) == (2, 3, 1)
    assert "keeps its free places for workspaces that have fewer jobs there" in str(error)
    world.clock.advance(KEPT_SECONDS)
    assert _refusal(world, "a") is None
    full = _refusal(world, "a")
    assert full is not None
    assert (full.waiting, full.kept) == (3, 0)


def test_a_lone_workspace_has_the_whole_capacity(world: World, limit: SetLimit) -> None:
    """Its own refusals keep no place from it; exempt jobs ask for none."""
    limit(world, 3)
    world.publish_many(3, "a")
    assert _refusal(world, "a")
    _free(world, world.worker())
    assert _refusal(world, "a") is None
    assert _refusal(world, "b")
    world.publish("a", exempt=True)
    assert world.store.depth("q") == 4


def test_places_for_a_group_are_kept_up_to_an_equal_part(world: World, limit: SetLimit) -> None:
    """A group that is refused gets places as long as others have more than it would have."""
    limit(world, 8)
    worker, ids = world.worker(), count()
    world.publish_many(8, "a")
    group = _together("calm", 4, ids)
    for _ in range(3):
        assert {type(one) for one in world.store.publish_many(group)} == {CapacityExceeded}
        _free(world, worker)
        assert _refusal(world, "a")
    _free(world, worker)
    assert all(not isinstance(one, Exception) for one in world.store.publish_many(group))
    assert (world.row("a").waiting, world.row("calm").waiting) == (4, 4)


def test_a_group_that_can_never_fit_keeps_no_place(world: World, limit: SetLimit) -> None:
    """It has more jobs than the capacity."""
    limit(world, 3)
    world.publish_many(3, "a")
    world.store.publish_many(_together("calm", 4, count()))
    _free(world, world.worker())
    assert _refusal(world, "a") is None


def test_scheduled_jobs_count_in_their_queue(world: World) -> None:
    """One that has filled a queue with jobs for later leaves places there, and in no other one."""
    _set_queue(world, 3)
    for _ in range(3):
        world.publish("a", delay_seconds=3600)
    assert _refusal(world, "calm")
    _set_queue(world, 4)
    assert _refusal(world, "a")
    world.store.set_limits("queue", "other", Limits(capacity=1))
    assert _refusal(world, "a", queue="other") is None  # type: ignore[arg-type]
    assert _refusal(world, "calm") is None


def test_many_refusals_are_noted_up_to_a_bound(world: World) -> None:
    """Of more than 64 workspaces those with the fewest jobs are remembered."""
    _set_total(world, 141)
    for n in range(70):
        world.publish_many(2, f"w{n}")
    world.publish("calm")
    for n in range(70):
        assert _refusal(world, f"w{n}")
    assert _refusal(world, "calm")
    _set_total(world, 142)
    assert _refusal(world, "w3")
    assert _refusal(world, "calm") is None
