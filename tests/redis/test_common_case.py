"""What a publish and a finish with claim cost in the common case, in commands.

A command more is some thousand instructions for each job: benchmarks/README.md has the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis

from fairqueue import FairQueue, Lease, Limits, NewJob, Scope
from fairqueue.adapters import Finish
from tests.redis.counting import commands


@pytest.fixture
def count(redis_client: redis.Redis) -> Callable[[Callable[[], object]], int]:
    """Count the commands that the scripts of an action run."""

    def counted(act: Callable[[], object]) -> int:
        ran = commands(redis_client, act)
        if ran.pop("evalsha", 0):  # on Redis 6.2 a script first writes what a full server takes
            ran.pop("unlink", None)
        else:
            assert ran.pop("fcall") == 1
        return sum(ran.values())

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


def test_commands_of_a_limit(redis_url: str, namespace: str, count: Count) -> None:
    """On one shard a single one looks for what only several have."""
    with _queue(redis_url, namespace) as queue:
        queue.limits.set(Scope.total(), concurrency=3)
        store = queue.store
        most = Limits(concurrency=4)
        assert count(lambda: store.set_limits("total", "", most)) == 27


@pytest.mark.parametrize(
    ("limits", "job_id", "most"),
    [
        ({}, None, 6),
        ({}, "known", 6),
        ({"workspace_capacity": 99}, None, 9),
        ({"workspace_capacity": 99, "workspace_concurrency": 9}, "known", 9),
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
    """TIME, the shard, two for ended ids, the record, the lane; more with a capacity."""
    with _queue(redis_url, namespace, **limits) as queue:

        def publish() -> None:
            queue.publish(b"x", queue="q", workspace="a", task="t", job_id=job_id)

        assert count(publish) == most


def test_commands_of_a_publish_to_an_idle_workspace(
    redis_url: str, namespace: str, count: Count
) -> None:
    """One push tells whether others wait; a record that is not there is not looked for."""
    with _queue(redis_url, namespace) as queue:
        names = iter("xyz")

        def publish() -> None:
            queue.publish(b"x", queue="q", workspace=next(names), task="t")

        publish()
        assert count(publish) == 13


@pytest.mark.parametrize(
    ("limits", "group", "most"),
    [
        ({}, None, 2 + 4 * 50),
        ({}, "g", 3 + 4 * 50),
        ({"workspace_capacity": 99}, None, 2 + 7 * 50),
        ({"workspace_capacity": 99}, "g", 11 + 4 * 50),
    ],
)
def test_commands_of_a_publish_of_many(
    redis_url: str,
    namespace: str,
    count: Count,
    limits: dict[str, Any],
    group: str | None,
    most: int,
) -> None:
    """Four for each job where nothing limits it; the capacity of a group is looked at once."""
    jobs = [NewJob(b"x", "q", workspace="a", task="t", group=group) for _ in range(50)]
    with _queue(redis_url, namespace, **limits) as queue:
        queue.publish_many([NewJob(b"x", "q", workspace="a", task="t", group="other")])
        assert count(lambda: queue.publish_many(jobs)) <= most


@pytest.mark.parametrize(
    ("limits", "n", "most"),
    [
        ({}, 1, 28),
        ({}, 8, 101),
        ({"workspace_capacity": 99, "workspace_concurrency": 9}, 1, 30),
        ({"workspace_capacity": 99, "workspace_concurrency": 9}, 8, 104),
    ],
)
def test_commands_of_a_finish_with_a_claim(
    redis_url: str, namespace: str, count: Count, limits: dict[str, Any], n: int, most: int
) -> None:
    """Ends and starts of several jobs share the commands of their leases and records."""
    with _queue(redis_url, namespace, **limits) as queue:
        for _ in range(10):
            for workspace in "abc":
                queue.publish(b"x", queue="q", workspace=workspace, task="t")
        leases: tuple[Lease, ...] = ()
        for each in (3, 3, n):
            finishes = [Finish(lease.fence, seconds=0.002) for lease in leases]
            leases = tuple(queue.claim(["q"], each, finishes=finishes).leases)

        def turn() -> None:
            queue.claim(["q"], n, finishes=[Finish(one.fence, seconds=0.0011) for one in leases])

        assert count(turn) <= most  # fewer where the workspace that ended is the next


def test_commands_of_a_foreign_job(redis_url: str, namespace: str, count: Count) -> None:
    """A status tells a job of another workspace and an unknown one alike, and at the same cost."""
    with _queue(redis_url, namespace) as queue:
        job = queue.publish(b"x", queue="q", workspace="a", task="t")
        foreign, unknown = (partial(queue.job, each, workspace="b") for each in (job, "x" * 26))
        assert foreign() is unknown() is None
        assert count(foreign) == count(unknown)
