"""The cost of asking why, in Redis commands, does not depend on others that wait."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from fairqueue import Job, Limits
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import StoredLimits
from fairqueue.adapters import Admission
from fairqueue.testing import ManualClock


def _commands(client: redis.Redis, store: Store, job_id: str | None) -> dict[str, int]:
    """Return the commands, by name, of one question."""
    client.config_resetstat()
    store.why(workspace="mine" if job_id is None else None, job_id=job_id, queue=None)
    stats: dict[str, dict[str, Any]] = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()}
    return {name: n for name, n in calls.items() if not name.startswith(("config", "info"))}


@pytest.mark.parametrize("job_id", [None, "mine-7", "no such job"])
def test_a_question_costs_the_same_beside_many_workspaces(
    redis_client: redis.Redis, namespace: str, job_id: str | None
) -> None:
    """Asking about a workspace with twenty jobs costs the same beside 500 at their limit.

    What they run is looked at, for when a start is expected: a command for each lease.
    """
    found = []
    for crowd in (0, 500):
        store = Store(
            RedisEngine(redis_client, namespace=f"{namespace}-{crowd}"), clock=ManualClock()
        )
        store.configure(StoredLimits(default=Limits(concurrency=1)), authoritative=True)
        for n in range(20):
            store.publish(Job(f"mine-{n}", "mine", "q", "t", b""), Admission())
        for n in range(2 * crowd):
            store.publish(Job(f"j{n}", f"w{n % crowd}", "q", "t", b""), Admission())
        store.claim(
            owner="one", number=1, queues=["q"], n=600, lease_seconds=30, max_deliveries=None
        )
        _commands(redis_client, store, job_id)  # caches the names of tasks and the scripts
        found.append(_commands(redis_client, store, job_id))
    beside_leases = dict(found[1])
    if job_id != "no such job":
        beside_leases["hget"] -= 500
    assert found[0] == beside_leases
    assert sum(found[0].values()) < 36
