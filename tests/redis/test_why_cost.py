"""What it costs to ask why, counted in Redis's own commands: others add nothing."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from fairqueue import Admission, Job, Limits
from fairqueue._stores.redis import RedisStore
from fairqueue._types import StoredLimits
from fairqueue.testing import ManualClock


def _commands(client: redis.Redis, store: RedisStore, job_id: str | None) -> dict[str, int]:
    """Commands by name that one question takes."""
    client.config_resetstat()
    store.why(workspace="mine" if job_id is None else None, job_id=job_id, queue=None)
    stats: dict[str, dict[str, Any]] = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()}
    return {name: n for name, n in calls.items() if not name.startswith(("config", "info"))}


@pytest.mark.parametrize("job_id", [None, "mine-7", "no such job"])
def test_a_question_costs_the_same_beside_a_crowd(
    redis_client: redis.Redis, namespace: str, job_id: str | None
) -> None:
    """Of a workspace with twenty jobs, alone and beside 500 that are at their limit."""
    found = []
    for crowd in (0, 500):
        store = RedisStore(redis_client, namespace=f"{namespace}-{crowd}", clock=ManualClock())
        store.configure(StoredLimits(default=Limits(concurrency=1)), authoritative=True)
        for n in range(20):
            store.publish(Job(f"mine-{n}", "mine", "q", "t", b""), Admission())
        for n in range(2 * crowd):
            store.publish(Job(f"j{n}", f"w{n % crowd}", "q", "t", b""), Admission())
        store.claim(
            owner="one", number=1, queues=["q"], n=600, lease_seconds=30, max_deliveries=None
        )
        _commands(redis_client, store, job_id)  # names of tasks and scripts are known from now on
        found.append(_commands(redis_client, store, job_id))
    assert found[0] == found[1]
    assert sum(found[0].values()) < 30
