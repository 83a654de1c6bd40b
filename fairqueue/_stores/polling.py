"""The safety poll: how long an idle claimer waits before it claims by itself."""

from __future__ import annotations

from collections.abc import Callable
from random import uniform

POLL_SECONDS = 3.0
POLL_LEASES = 0.3  # idle claimers call more often than every third of a lease
JITTER = (0.75, 1.0)


def poll_seconds(
    lease_seconds: float,
    shards: int = 1,
    jitter: Callable[[float, float], float] = uniform,
) -> float:
    """Return the safety poll, jittered so that claimers do not call together.

    With several ``shards`` on one server, each is polled less often.
    """
    return min(POLL_SECONDS * shards, POLL_LEASES * lease_seconds) * jitter(*JITTER)
