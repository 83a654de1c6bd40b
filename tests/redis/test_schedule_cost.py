"""What schedules cost: a look where nothing is due, a tick, and the work of others beside many."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import redis

from fairqueue import FairQueue
from fairqueue.adapters import Ticker
from tests.redis.counting import commands

MANY = 10_000


def _put_many(queue: FairQueue, n: int, *, due: float, spread: float) -> None:
    """Put schedules of as many workspaces that are due at the same second."""
    record = {"runner": "core", "next": f"{due:.3f}", "boot": "-"}
    definition = '{"when":{"every":3600,"tz":"UTC"},"call":{"queue":"q","payload":""},"task":"t"}'
    for i in range(n):
        delay = f"{spread * i / n:.3f}"
        queue.store.put_schedule(f"w{i}", "n", **record, delay=delay, definition=definition)


def test_a_look_where_nothing_is_due(queue: FairQueue, redis_client: redis.Redis) -> None:
    """Four commands each second, of each process; where there is no schedule, each 5 s."""
    ticker = Ticker(queue.schedules.core)
    queue.publish(b"", queue="q", workspace="a")
    for n in (0, 3):
        _put_many(queue, n, due=2e9, spread=0)
        assert ticker.look() == (1.0 if n else 5.0)
        ran = commands(redis_client, ticker.look)
        others = "fcall", "evalsha", "unlink"  # the call, and what Redis 6.2 needs when full
        assert sum(n for name, n in ran.items() if name not in others) == 4, ran


def _processor_seconds(client: redis.Redis) -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


@pytest.mark.slow
def test_ten_thousand_at_one_second(queue: FairQueue, redis_client: redis.Redis) -> None:
    """All are published within their spread, and another workspace's jobs wait as long as before.

    That wait is counted, since a busy machine hides it: a claim beside the ticks runs at most a
    tenth more commands, and the ticks take less than a tenth of the server's time.
    """
    queue.publish(b"", queue="other", workspace="b")
    before = sum(commands(redis_client, lambda: queue.claim(["other"])).values())
    spread = 30.0
    due = time.time() + 12
    _put_many(queue, MANY, due=due, spread=spread)
    ticker = Ticker(queue.schedules.core)
    late, took = 0.0, _processor_seconds(redis_client)
    while queue.depth("q") < MANY:
        assert time.time() < due + 3 * spread
        time.sleep(ticker.look())
        late = max(late, queue.schedules.lateness())
    assert time.time() < due + spread + 5
    assert _processor_seconds(redis_client) - took < 0.1 * spread
    assert late < 5
    queue.publish(b"", queue="other", workspace="b")
    queue.tally.end()  # else the claim would also send what has happened meanwhile
    after = sum(commands(redis_client, lambda: queue.claim(["other"])).values())
    assert after <= 1.1 * before
    jobs = Counter(row.workspace for row in queue.views.overview(top=50).workspaces)
    assert max(jobs.values()) == 1
