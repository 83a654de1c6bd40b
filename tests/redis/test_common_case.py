"""What a publish and a finish with claim cost in the common case, in commands.

A command more is some thousand instructions for each job: benchmarks/README.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from fairqueue import FairQueue
from fairqueue.adapters import Finish

OF_THE_CALL = {"evalsha", "info", "config|resetstat"}


@pytest.fixture
def count(redis_client: redis.Redis) -> Callable[[Callable[[], object]], int]:
    """Count the commands that the scripts of an action run."""

    def counted(act: Callable[[], object]) -> int:
        redis_client.config_resetstat()
        act()
        stats: dict[str, dict[str, Any]] = redis_client.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): row["calls"] for name, row in stats.items()}
        assert calls.pop("evalsha") == 1
        return sum(n for name, n in calls.items() if name not in OF_THE_CALL)

    return counted


Count = Callable[[Callable[[], object]], int]


def _queue(url: str, namespace: str, **limits: Any) -> FairQueue:
    """A queue on which three workspaces have jobs, and everything was called before."""
    queue = FairQueue(url, namespace=namespace, **limits)
    for _ in range(6):
        for workspace in "abc":
            queue.publish(b"x", queue="q", workspace=workspace, task="t")
    lease = queue.claim(["q"]).leases[0]
    queue.claim(["q"], finishes=[Finish(lease.fence, seconds=0.002)])
    return queue


@pytest.mark.parametrize(
    ("limits", "job_id", "most"),
    [
        ({}, None, 5),
        ({}, "known", 8),
        ({"workspace_capacity": 99}, None, 9),
        ({"workspace_capacity": 99, "workspace_concurrency": 9}, "known", 11),
    ],
)
def test_commands_of_a_publish(
    redis_url: str,
    namespace: str,
    count: Count,
    limits: dict[str, Any],
    job_id: str | None,
    most: int,
) -> None:
    """TIME, the task, the workspace, the record, the lane; more where there is more to know."""
    with _queue(redis_url, namespace, **limits) as queue:

        def publish() -> None:
            queue.publish(b"x", queue="q", workspace="a", task="t", job_id=job_id)

        assert count(publish) == most


def test_commands_of_a_finish_with_a_claim(redis_url: str, namespace: str, count: Count) -> None:
    """The short way reads once what it needs, and writes what the general one writes."""
    with _queue(redis_url, namespace) as queue:
        for _ in range(3):
            (lease,) = queue.claim(["q"]).leases
            queue.ack(lease, seconds=0.002)
        (lease,) = queue.claim(["q"]).leases

        def turn() -> None:
            queue.claim(["q"], finishes=[Finish(lease.fence, seconds=0.0011)])

        assert count(turn) <= 38
