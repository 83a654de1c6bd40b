"""Where workspaces stand after virtual time has started again, or has caught up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairqueue import FairQueue, Scope
from fairqueue.testing import ManualClock, memory_url

SECONDS = 10.0
A = Scope.workspace("a")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> Iterator[FairQueue]:
    with memory_url(clock) as url, FairQueue(url, lease_seconds=12 * 3600) as queue:
        yield queue


def _publish(queue: FairQueue, workspace: str, n: int, to: str = "q") -> None:
    for _ in range(n):
        queue.publish(b"", queue=to, workspace=workspace, task="t")


def _run(queue: FairQueue, clock: ManualClock, n: int) -> str:
    """Run jobs one after the other; return whose they were."""
    order = ""
    for _ in range(n):
        [lease] = queue.claim(["q"], 1).leases
        order += lease.job.workspace
        clock.advance(SECONDS)
        queue.ack(lease, seconds=SECONDS)
    return order


@pytest.mark.parametrize("held_by", ["limit", "pause", "pause before its first start"])
def test_an_old_debt_does_not_come_back(queue: FairQueue, clock: ManualClock, held_by: str) -> None:
    """Its workspace worked elsewhere while its queue was at rest, and virtual time began again."""
    queue.limits.set(A, concurrency=2)
    _publish(queue, "a", 1, to="elsewhere")
    queue.claim(["elsewhere"], 1)
    _publish(queue, "a", 100)
    _run(queue, clock, 100)
    for _ in range(20):
        clock.advance(SECONDS)
        queue.claim(["q"], 1)
    _publish(queue, "b", 40)
    _run(queue, clock, 1)
    held = None
    if held_by == "limit":
        _publish(queue, "a", 1, to="elsewhere")
        [held] = queue.claim(["elsewhere"], 1).leases
    elif held_by == "pause":
        queue.pauses.pause(A)
    _publish(queue, "a", 10)
    if held_by == "pause before its first start":
        queue.pauses.pause(A)
    if held is None:
        queue.pauses.resume(A)
    else:
        queue.ack(held, seconds=1)
    assert _run(queue, clock, 20).count("a") >= 8


@pytest.mark.parametrize("change", ["a refund", "a weight"])
def test_virtual_time_does_not_catch_up_with_what_was_given_back(
    queue: FairQueue, clock: ManualClock, change: str
) -> None:
    """A newcomer beside a workspace whose debt has become less does not leave it a credit."""
    queue.limits.set(A, concurrency=1, weight=1.0 if change == "a refund" else 0.01)
    _publish(queue, "a", 40)
    if change == "a refund":
        _run(queue, clock, 2)
    [lease] = queue.claim(["q"], 1).leases
    clock.advance(1000)
    queue.renew([(lease.fence, 1000.0)])
    if change == "a refund":
        queue.release(lease)
        [lease] = queue.claim(["q"], 1).leases
    else:
        queue.limits.set(A, concurrency=1, weight=1.0)
        queue.claim(["q"], 1)
    _publish(queue, "b", 30)
    worked = SECONDS if change == "a refund" else 1000.0
    clock.advance(worked)
    queue.ack(lease, seconds=worked)
    assert "aaa" not in _run(queue, clock, 20)
