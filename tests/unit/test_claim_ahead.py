"""The number of jobs that a worker may claim before a slot is free."""

from __future__ import annotations

import pytest

from fairqueue.adapters import ClaimAhead


@pytest.mark.parametrize(
    ("within", "duration", "slots", "jobs"),
    [
        *((0.005, 10.0, 4, 0), (0.005, 0.02, 4, 1), (0.005, 0.001, 4, 16)),
        *((0.005, 0.0001, 1, 8), (0.005, 0.004, 1, 1), (0.0, 0.0001, 4, 0)),
    ],
)
def test_only_jobs_that_start_soon_are_claimed_ahead(
    within: float, duration: float, slots: int, jobs: int
) -> None:
    """By the mean duration, and no more than the caller allows; none before one is known."""
    claim_ahead = ClaimAhead(within)
    assert claim_ahead.jobs(slots, at_most=16) == 0
    for _ in range(200):
        claim_ahead.record(duration)
    assert claim_ahead.jobs(slots, at_most=max(8, 4 * slots)) == jobs


def test_the_newest_durations_count_most() -> None:
    """After one short job the largest number is claimed; after many long ones, none."""
    claim_ahead = ClaimAhead(0.005)
    claim_ahead.record(0.0005)
    assert claim_ahead.jobs(8, at_most=8) == 8
    for _ in range(100):
        claim_ahead.record(1.0)
    assert claim_ahead.jobs(8, at_most=8) == 0
