"""Celery's ``rate_limit`` of a task: jobs above it go back until their turn."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.utils import limits

from fairqueue_celery._worker import bootstep


@pytest.mark.parametrize("early", [0.0, 0.2])
def test_a_job_that_comes_back_just_before_its_token_keeps_its_turn(
    early: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At two a second: each comes back in its turn, and the rate holds over all of them."""
    now = 1000.0
    monkeypatch.setattr(limits, "monotonic", lambda: now)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    begun: list[float] = []
    delays: list[float] = []
    leases = SimpleNamespace(release=lambda _, delay_seconds: delays.append(delay_seconds))
    held = SimpleNamespace(request=object(), lease=SimpleNamespace(redelivered=False))
    monkeypatch.setattr(
        bootstep, "all_held", lambda: iter([(SimpleNamespace(leases=leases), held)])
    )
    step: Any = object.__new__(bootstep.Fairness)
    step._consumer = SimpleNamespace(_limit_move_to_pool=lambda _: begun.append(now))
    bucket = limits.TokenBucket(2.0)

    for _ in range(5):
        step._limit_task(held.request, bucket, 1)
    turns = [now + seconds for seconds in delays]
    assert turns == [1000.5, 1001.0, 1001.5, 1002.0]
    held.lease.redelivered = True
    for n, turn in enumerate(turns):
        now = turn - early * (n % 2)
        step._limit_task(held.request, bucket, 1)
    assert len(begun) == 5
    step._limit_task(held.request, bucket, 1)
    assert len(begun) == 5
