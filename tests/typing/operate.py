"""An operator's program must type-check: everything on ``queue.admin``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from typing_extensions import assert_type

from fairqueue import (
    Blocker,
    Cancelled,
    CancelledAll,
    DeadLetter,
    FairQueue,
    Job,
    JobState,
    Limit,
    Pause,
    QueuePosition,
    Stats,
    WorkspaceStats,
)


def look(queue: FairQueue) -> list[str]:
    """Statistics and reasons are plain values."""
    stats = queue.admin.stats()
    assert_type(stats, Stats)
    assert_type(stats.workspaces, tuple[WorkspaceStats, ...])
    assert_type(stats.queues, Mapping[str, int])
    why = queue.admin.why("some-id")
    assert_type(why.state, JobState)
    assert_type(why.positions, tuple[QueuePosition, ...])
    assert_type(why.blockers, tuple[Blocker, ...])
    stats.queues["mail"] = 1  # type: ignore[index]
    why.state = JobState.DEAD  # type: ignore[misc]
    return [blocker.kind for position in why.positions for blocker in position.blockers]


def limit(queue: FairQueue) -> dict[str, Limit]:
    """Limits are set by name and read with their source."""
    queue.admin.set_limits("acme", concurrency=2, rate="100/m", parent=None)
    queue.admin.set_task_limits("report", workspace_concurrency=1)
    queue.admin.set_limits("acme", 2)  # type: ignore[call-arg]
    limits = queue.admin.limits("acme")
    assert_type(limits["concurrency"].source, str)
    return limits


def hold(queue: FairQueue) -> None:
    """Scopes are named; the previous state is returned."""
    assert_type(queue.admin.pause(workspace="acme"), Pause | None)
    assert_type(queue.admin.drain(queue="mail"), Pause | None)
    assert_type(queue.admin.resume(), Pause | None)
    assert_type(queue.admin.pauses(), dict[tuple[str, str], Pause])
    queue.admin.pause("acme")  # type: ignore[call-arg]


def remove(queue: FairQueue) -> int:
    """What was cancelled is told apart; removals are counted."""
    assert_type(queue.admin.cancel("some-id"), Cancelled)
    assert_type(queue.admin.withdraw("some-id", queue="mail"), Job | None)
    cancelled = queue.admin.cancel_workspace("acme", progress=print)
    assert_type(cancelled, CancelledAll)
    return cancelled.removed + queue.admin.purge("mail", task="send")


def revive(queue: FairQueue) -> bool:
    """Dead letters are listed by page, and replayed one by one or all at a rate."""
    letters = queue.admin.dead_letters("acme", start=100)
    assert_type(letters, list[DeadLetter])
    assert_type(queue.admin.dead_letter("acme", "some-id"), DeadLetter | None)
    assert_type(queue.admin.replay_all("acme", per_second=10), int)
    return queue.admin.replay("acme", letters[0].job.id)


def move(queue: FairQueue) -> int:
    """An export is an iterator of counts, one for each step."""
    steps = queue.admin.export_jobs("mail", [(0, "mail"), (5, "mail.urgent")])
    assert_type(steps, Iterator[int])
    assert_type(queue.admin.import_message("mail", b"hello", queue="mail"), bool)
    return sum(steps)
