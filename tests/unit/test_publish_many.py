"""``FairQueue.publish_many``: the arguments of its jobs, all or none, and waiting for room."""

from __future__ import annotations

from typing import Any

import pytest

import fairqueue
from fairqueue import (
    CapacityExceeded,
    ConfigurationError,
    FairQueue,
    JobId,
    LeaseLost,
    NewJob,
    WorkspaceUnresolved,
)
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.store import Store


def make(**options: Any) -> FairQueue:
    """A queue in memory, of its own."""
    return FairQueue(store=Store(MemoryEngine()), **options)


def some(n: int, **how: Any) -> list[NewJob]:
    """Make this many jobs."""
    return [NewJob(b"x", "q", **{"workspace": "a", "task": "t", **how}) for _ in range(n)]


def test_a_workspace_is_found_as_for_a_publish() -> None:
    """In the job, in the surrounding block, else it is the default one."""
    queue = make(default_workspace="common", on_missing_workspace="default")
    with fairqueue.workspace("around"):
        queue.publish_many([*some(1), *some(1, workspace=None)])
    queue.publish_many(iter(some(1, workspace=None)))
    names = {row.workspace for row in queue.views.stats().workspaces}
    assert names == {"a", "around", "common"}


@pytest.mark.parametrize(
    "bad",
    [
        {"workspace": ""},
        {"priority": -1},
        {"delay_seconds": "soon"},
        {"unique_for": 3},
        {"unique_key": "k", "unique_for": 0},
        {"workspace": None},
    ],
)
def test_a_bad_argument_stores_nothing(bad: dict[str, Any]) -> None:
    """It raises before anything is sent."""
    queue = make(on_missing_workspace="reject")
    with pytest.raises(WorkspaceUnresolved if bad == {"workspace": None} else ConfigurationError):
        queue.publish_many([*some(2), *some(1, **bad)])
    assert queue.depth("q") == 0


def test_all_or_none_raises_what_refuses_one() -> None:
    """Nothing is stored then."""
    queue = make(workspace_capacity=5)
    with pytest.raises(CapacityExceeded) as caught:
        queue.publish_many([*some(4), *some(6, workspace="b")], all_or_none=True)
    assert (caught.value.workspace, caught.value.jobs) == ("b", 6)
    with pytest.raises(LeaseLost):
        queue.publish_many(some(3, parent_fence=77), all_or_none=True)
    assert queue.depth("q") == 0
    assert len(queue.publish_many(some(5), all_or_none=True)) == 5


def work_while_it_waits(monkeypatch: pytest.MonkeyPatch, queue: FairQueue) -> None:
    """Let each pause of a publish end a job."""

    def work(_seconds: float) -> None:
        for lease in queue.claim(["q"], 1).leases:
            queue.ack(lease)

    monkeypatch.setattr("fairqueue._publish.capacity_wait.time.sleep", work)


@pytest.mark.timeout(10)
def test_a_publish_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was refused is published again; what was stored is not."""
    queue = make(workspace_capacity=2)
    work_while_it_waits(monkeypatch, queue)
    outcomes = queue.publish_many(some(4), block_seconds=60)
    assert all(isinstance(one, JobId) for one in outcomes)
    assert queue.depth("q") == 2
    outcomes = queue.publish_many(some(2), all_or_none=True, block_seconds=60)
    assert queue.depth("q") == 2


@pytest.mark.timeout(10)
def test_a_group_that_never_fits_ends_no_wait_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, and the others are published when there is room."""
    queue = make(workspace_capacity=2)
    queue.publish_many(some(2))
    work_while_it_waits(monkeypatch, queue)
    outcomes = queue.publish_many([*some(3, group="g"), *some(1)], block_seconds=60)
    assert [type(one) for one in outcomes] == [CapacityExceeded] * 3 + [JobId]


def test_a_job_whose_id_is_used_and_that_is_refused_is_an_outcome() -> None:
    """As the others are: the jobs behind it are stored, and told."""
    queue = make(workspace_capacity=1)
    queue.publish(b"", queue="q", workspace="b", job_id="m")
    used = some(1, workspace="b", job_id="m", other_id="x~m")
    pairs = [queue._checked(new, is_new=True) for new in [*used, *some(1)]]
    outcomes = queue._publish_many(pairs)
    assert [type(one) for one in outcomes] == [CapacityExceeded, JobId]


@pytest.mark.timeout(10)
def test_what_never_fits_is_not_waited_for() -> None:
    """More jobs than the capacity are refused at once, and so is what has waited long enough."""
    queue = make(workspace_capacity=2, on_full="block", block_seconds=600)
    with pytest.raises(CapacityExceeded, match="no room for 3 jobs at once") as caught:
        queue.publish_many(some(3), all_or_none=True)
    assert caught.value.never_fits
    queue.publish_many(some(2))
    late = queue.publish_many(some(1), block_seconds=0.01)
    assert isinstance(late[0], CapacityExceeded)
