"""The time until a worker's next claim."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import Settings
from fairqueue_dramatiq import _claim_interval
from fairqueue_dramatiq._claim_interval import ClaimInterval

LIMITS: list[dict[str, Any]] = [
    {"workspace_concurrency": 2},
    {"total_concurrency": 2},
    {"workspaces": {"ada": {"concurrency": 2}}},
    {"queues": {"mails": {"concurrency": 2}}},
    {"tasks": {"mail": {"workspace_concurrency": 2}}},
]


def test_claims_are_spaced_unless_there_are_more_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first claim is not delayed, nor is one after a claim that got all it asked for."""
    monkeypatch.setattr(_claim_interval, "CLAIM_INTERVAL_SECONDS", 60)
    interval = ClaimInterval(Settings.load())
    assert interval.early_seconds(finishing=False) <= 0
    interval.claimed(more=False)
    assert interval.early_seconds(finishing=False) > 0
    assert interval.early_seconds(finishing=True) > 0
    interval.claimed(more=True)
    assert interval.early_seconds(finishing=False) <= 0


@pytest.mark.parametrize("settings", LIMITS)
def test_a_limited_slot_is_given_back_at_once(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any concurrency limit, another job may wait for it."""
    monkeypatch.setattr(_claim_interval, "CLAIM_INTERVAL_SECONDS", 60)
    interval = ClaimInterval(Settings.load(settings))
    interval.claimed(more=False)
    assert interval.early_seconds(finishing=False) > 0
    assert interval.early_seconds(finishing=True) <= 0
