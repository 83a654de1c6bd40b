"""An integration of another framework must type-check: what ``fairqueue.adapters`` offers."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import assert_type

from fairqueue import CapacityExceeded, DeadLetter, FairQueue, JobContext, Lease, Outcome
from fairqueue.adapters import (
    Call,
    ChildWaits,
    ClaimAhead,
    Claimed,
    Ending,
    FailureReporter,
    Finish,
    LeaseKeeper,
    UnknownTaskBackoff,
    Waiter,
    named_workspace,
    run_context,
    split_settings,
    translate_errors,
)


class Full(CapacityExceeded):
    """An integration's own error."""


def publish(queue: FairQueue, task: str, args: Sequence[object]) -> str:
    """A call's workspace is found by the sources of the settings; it may have none."""
    call = Call(task=task, args=args, kwargs={}, headers={"workspace": "acme"})
    name = named_workspace(call, queue.settings.workspace_from)
    assert_type(name, str | None)
    return queue.publish(b"", queue="q", workspace=name, task=task)


def print_fence(fence: int) -> None:
    """Not a callback of the keeper: that gets a lease."""


def run(queue: FairQueue, keeper: LeaseKeeper, lease: Lease) -> Finish:
    """A lease is kept while its job runs in its context; its end goes with the next claim."""

    def on_lost(lost: Lease) -> None:
        assert_type(lost.fence, int)

    keeper.hold(lease, on_lost=on_lost)
    keeper.hold(lease, redeliver=True, on_lost=print_fence)  # type: ignore[arg-type]
    name, fence = lease.job.workspace, lease.fence
    job = JobContext(lease.job.id, name, fence, lease.deliveries, queue.store.store_id)
    with run_context(job) as running:
        assert_type(running, JobContext)
        keeper.started(lease.fence)
    seconds = keeper.seconds(lease.fence)
    keeper.forget(lease.fence)
    finish = Finish(lease.fence, Ending.ACK, seconds)
    assert_type(queue.claim(["q"], 1, finishes=[finish]), Claimed)
    return finish


def wait(queue: FairQueue) -> bool:
    """A waiter has a descriptor for event loops."""
    waiter = queue.waiter(["q"])
    assert_type(waiter, Waiter)
    assert_type(waiter.fileno(), int)
    return waiter.wait(1.0)


def report_failures(queue: FairQueue, queues: Sequence[str]) -> FailureReporter:
    """The failure handler says whether it knew the task."""

    def report(letter: DeadLetter) -> bool:
        return letter.job.task == "known"

    FailureReporter(queue, lambda: queues, print)  # type: ignore[arg-type]
    return FailureReporter(queue, lambda: queues, report)


def decline(queue: FairQueue, backoff: UnknownTaskBackoff, lease: Lease) -> None:
    """Without a delay, the job is given up."""
    delay_seconds = backoff.delay_seconds(lease)
    queue.release(lease, delay_seconds=delay_seconds, declined=True)  # type: ignore[arg-type]
    assert_type(delay_seconds, float | None)


def claim_ahead(ahead: ClaimAhead) -> int:
    """The estimate is a number of jobs."""
    ahead.record(0.25)
    assert_type(ahead.jobs(4, at_most=10), int)
    return ahead.jobs(4, 10)  # type: ignore[call-arg]


def remember(sent: ChildWaits, queue: FairQueue) -> None:
    """Outcomes are known by the ids of messages; errors become the integration's own."""
    with translate_errors({CapacityExceeded: Full}):
        job_id = queue.publish(b"", queue="q")
    sent.published(queue, "message", "acme", "q", "t", job_id, keyed=True)
    assert_type(sent.unique("message"), tuple[Outcome, str] | None)
    translate_errors({CapacityExceeded: ValueError})  # type: ignore[dict-item]


def read_url(url: str) -> str:
    """Settings are taken out of a URL."""
    rest, settings = split_settings(url)
    assert_type(rest, str)
    return f"{rest} {sorted(settings)}"
