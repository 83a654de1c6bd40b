"""An operator's program must type-check: every part of a queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    Scope,
    Stats,
    WorkspaceStats,
)
from fairqueue.rows import DeadFilter, PauseRow


def look(queue: FairQueue) -> list[str]:
    """Statistics and reasons are plain values."""
    stats = queue.views.stats()
    assert_type(stats, Stats)
    assert_type(stats.workspaces, tuple[WorkspaceStats, ...])
    assert_type(stats.queues, Mapping[str, int])
    why = queue.views.why("some-id")
    assert_type(why.state, JobState)
    assert_type(why.positions, tuple[QueuePosition, ...])
    assert_type(why.blockers, tuple[Blocker, ...])
    stats.queues["mail"] = 1  # type: ignore[index]
    why.state = JobState.DEAD  # type: ignore[misc]
    return [blocker.kind for position in why.positions for blocker in position.blockers]


def limit(queue: FairQueue) -> dict[str, Limit]:
    """Limits are set by name and read with their source."""
    queue.limits.set(Scope.workspace("acme"), concurrency=2, rate="100/m", parent=None)
    queue.limits.set(Scope.task("report"), workspace_concurrency=1)
    queue.limits.set(Scope.workspace("acme"), 2)  # type: ignore[call-arg]
    limits = queue.limits.get(Scope.workspace("acme"))
    assert_type(limits["concurrency"].source, str)
    return limits


def hold(queue: FairQueue) -> None:
    """Scopes are named; the previous state is returned."""
    assert_type(queue.pauses.pause(Scope.workspace("acme")), Pause | None)
    assert_type(queue.pauses.drain(Scope.queue("mail")), Pause | None)
    assert_type(queue.pauses.resume(Scope.total()), Pause | None)
    assert_type(queue.pauses.list(), list[PauseRow])
    queue.pauses.pause("acme")  # type: ignore[arg-type]


def remove(queue: FairQueue) -> int:
    """What was cancelled is told apart; removals are counted."""
    assert_type(queue.jobs.cancel("some-id"), Cancelled)
    assert_type(queue.jobs.withdraw("some-id", queue="mail"), Job | None)
    cancelled = queue.jobs.cancel_matching(workspace="acme", progress=print)
    assert_type(cancelled, CancelledAll)
    return cancelled.removed + queue.jobs.purge("mail", task="send")


def revive(queue: FairQueue) -> bool:
    """Dead letters are listed by page, and replayed one by one or all at a rate."""
    letters = queue.dead.page("acme", start=100)
    assert_type(letters, Sequence[DeadLetter])
    assert_type(queue.dead.get("acme", "some-id"), DeadLetter | None)
    assert_type(queue.dead.replay_all(DeadFilter("acme"), per_second=10), int)
    return queue.dead.replay("acme", letters[0].job.id)


def move(queue: FairQueue) -> int:
    """An export is an iterator of counts, one for each step."""
    steps = queue.jobs.export_jobs("mail", [(0, "mail"), (5, "mail.urgent")])
    assert_type(steps, Iterator[int])
    assert_type(queue.jobs.import_message("mail", b"hello", queue="mail"), bool)
    return sum(steps)
