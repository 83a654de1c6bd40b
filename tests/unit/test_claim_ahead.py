"""The number of jobs that a worker may claim before a slot is free."""

from __future__ import annotations

import pytest

from fairqueue.adapters import ClaimAhead


@pytest.mark.parametrize(
    ("duration", "slots", "jobs"),
    [(10.0, 4, 0), (0.02, 4, 1), (0.001, 4, 16), (0.0001, 1, 8), (0.004, 1, 1)],
)
def test_only_jobs_that_start_soon_are_claimed_ahead(
    duration: float, slots: int, jobs: int
) -> None:
    """They start within 5 ms by the mean duration, and are no more than the caller allows."""
    claim_ahead = ClaimAhead(0.005)
    for _ in range(200):
        claim_ahead.record(duration)
    assert claim_ahead.jobs(slots, at_most=max(8, 4 * slots)) == jobs


def test_no_job_is_claimed_ahead_without_durations_or_if_disabled() -> None:
    """With no duration known, or claim_ahead_seconds of 0, the number is 0."""
    fast = ClaimAhead(0.0)
    fast.record(0.0001)
    assert ClaimAhead(0.005).jobs(4, at_most=16) == 0
    assert fast.jobs(4, at_most=16) == 0


def test_the_newest_durations_count_most() -> None:
    """After one short job the largest number is claimed; after many long ones, none."""
    claim_ahead = ClaimAhead(0.005)
    claim_ahead.record(0.0005)
    assert claim_ahead.jobs(8, at_most=8) == 8
    for _ in range(100):
        claim_ahead.record(1.0)
    assert claim_ahead.jobs(8, at_most=8) == 0


def test_what_is_claimed_ahead_is_held_longer_than_it_should_wait() -> None:
    """Else it would be given back, claimed again, and start nothing once more."""
    assert [ClaimAhead(seconds).hold_seconds for seconds in (0.0, 0.005, 0.1)] == [0.05, 0.05, 0.2]
