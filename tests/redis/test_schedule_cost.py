"""What schedules cost: a look where nothing is due, a tick, and the work of others beside many."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
import redis

from fairqueue import FairQueue, NewJob, StoreUnavailable
from fairqueue.adapters import Finish, Ticker
from fairqueue.testing import embedded_redis
from tests.redis.counting import commands

MANY = 10_000


def _put_many(queue: FairQueue, n: int, *, due: float, spread: float, every: float = 3600) -> None:
    """Put schedules of as many workspaces that are due at the same second."""
    record = {"runner": "core", "next": f"{due:.3f}", "boot": "-", "digest": "d"}
    definition = json.dumps(
        {"when": {"every": every}, "call": {"queue": "q", "payload": ""}, "task": "t"}
    )
    for i in range(n):
        delay = f"{spread * i / n:.3f}"
        queue.store.put_schedule(f"w{i}", "n", **record, delay=delay, definition=definition)


def test_a_look_where_nothing_is_due(
    redis_url: str, namespace: str, redis_client: redis.Redis
) -> None:
    """Four commands each second, of each process; where there is no schedule, each 5 s."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        ticker = Ticker(queue.schedules.core)
        queue.publish(b"", queue="q", workspace="a")
        for n in (0, 3):
            _put_many(queue, n, due=2e9, spread=0)
            assert ticker.look() == (1.0 if n else 5.0)
            ran = commands(redis_client, ticker.look)
            others = "fcall", "evalsha", "unlink"  # the call, and what Redis 6.2 needs when full
            assert sum(n for name, n in ran.items() if name not in others) == 4, ran


@pytest.mark.slow
def test_ten_thousand_at_one_second(
    redis_url: str, namespace: str, redis_client: redis.Redis
) -> None:
    """All are published within their spread, and a claim beside them runs as many commands."""
    with FairQueue(redis_url, namespace=namespace) as queue:
        queue.publish(b"", queue="other", workspace="b")
        before = sum(commands(redis_client, lambda: queue.claim(["other"])).values())
        spread = 30.0
        due = time.time() + 12
        _put_many(queue, MANY, due=due, spread=spread)
        ticker = Ticker(queue.schedules.core)
        late = 0.0
        while queue.depth("q") < MANY:
            assert time.time() < due + 3 * spread
            time.sleep(ticker.look())
            late = max(late, queue.schedules.lateness())
        assert time.time() < due + spread + 5
        assert late < 5
        queue.publish(b"", queue="other", workspace="b")
        after = sum(commands(redis_client, lambda: queue.claim(["other"])).values())
        assert after <= 1.1 * before
        jobs = Counter(row.workspace for row in queue.views.overview(top=50).workspaces)
        assert max(jobs.values()) == 1


TICKING = """
import sys, threading, fairqueue
fairqueue.FairQueue(sys.argv[1], namespace=sys.argv[2]).schedules.start()
threading.Event().wait()
"""


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_waits_of_another_workspace(redis_url: str, namespace: str) -> None:
    """Beside 333 ticks a second, as 10,000 at one moment with a spread of 30 s, they stay the same.

    On a machine that is not busy: waits are some ms, and beside other work all are longer.

    Ten seconds with ticks and ten without take turns; the median of what each such pair shows
    counts, so that other work of the machine does not.
    """
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        pytest.skip("the machine is busy")
    half, rounds = 10.0, 9
    waits: list[tuple[list[float], list[float]]] = [([], []) for _ in range(rounds)]
    with FairQueue(redis_url, namespace=namespace) as queue:
        due = time.time() + 25
        ends = due + 2 * half * rounds
        _put_many(queue, MANY // 3, due=due, spread=half, every=2 * half)
        _put_many(queue, MANY, due=due + 86_400, spread=0)  # the others: equal ones stay

        def work() -> None:
            finishes: list[Finish] = []
            while time.time() < ends:
                leases = queue.claim(["other"], wait_seconds=1, finishes=finishes).leases
                finishes = [Finish(lease.fence, seconds=0.001) for lease in leases]
                for lease in leases:
                    n, without = map(int, lease.job.payload.split())
                    waits[n][without].append(lease.waited_seconds or 0.0)

        ticking = subprocess.Popen([sys.executable, "-c", TICKING, redis_url, namespace])
        worker = threading.Thread(target=work)
        try:
            time.sleep(max(0.0, due - time.time()))
            worker.start()
            while (passed := time.time() - due) < ends - due:
                n, without = divmod(int(passed / half), 2)
                queue.publish(b"%d %d" % (n, without), queue="other", workspace="b")
                time.sleep(0.02)
            worker.join()
        finally:
            ticking.kill()
            ticking.wait()
        assert queue.depth("q") // (MANY // 3) == rounds
    ratios = [statistics.median(beside) / statistics.median(alone) for beside, alone in waits]
    assert statistics.median(ratios) <= 1.1, ratios


def test_a_server_that_is_killed_before_its_reply(namespace: str) -> None:
    """The tick is stored, and the same or another process finds it published."""
    with (
        embedded_redis(persistent=True) as server,
        FairQueue(server.url, namespace=namespace) as queue,
    ):
        queue.schedules.put("n", NewJob(b"", queue="q"), workspace="a", every=1)
        engine = queue.store.shards[0].engine
        call, lost = engine.call, list[object]()

        def call_and_lose(operation: str, **arguments: object) -> object:
            reply = call(operation, **arguments)  # type: ignore[arg-type]
            if operation == "publish_many" and not lost:
                lost.append(reply)
                server.kill()
                server.start()
                raise StoreUnavailable("the connection is gone")
            return reply

        engine.call = call_and_lose  # type: ignore[method-assign, assignment]
        ticker = Ticker(queue.schedules.core)
        for _ in range(30):
            time.sleep(0.2)
            try:
                ticker.look()
            except StoreUnavailable:
                continue
            if lost and queue.depth("q") >= 3:
                break
        ticks = [lease.job.id.split(",")[1] for lease in queue.claim(["q"], 50).leases]
        assert len(set(ticks)) == len(ticks) >= 3
        assert int(ticks[-1]) - int(ticks[0]) == 1000 * (len(ticks) - 1)
