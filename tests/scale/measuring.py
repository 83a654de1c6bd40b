"""Measures what calls cost a real server's processor, beside more and more workspaces."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from statistics import median
from typing import Any

import redis

from fairqueue import Job
from fairqueue._shards import Time
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Finish
from fairqueue.testing import embedded_redis
from tests.scale.prices import EIGHT, Measured, Prices

QUEUE = "q"
PAYLOAD = b"x" * 700  # about the size of a Celery message
AT_ONCE = 100
LEASE_SECONDS = 3600.0
TOLD: tuple[Time, ...] = ((0.0, None),)
SIDES: dict[str, Sequence[Time]] = {"alone": (), "told": TOLD}
"""With one shard a claim says nothing of others; with several it tells the time."""


class Meter:
    """Times calls in turns; what a kind of call costs is the median of its turns."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self.server: dict[str, list[float]] = defaultdict(list)
        self.own: list[float] = []

    def time(self, kind: str, calls: Sequence[Callable[[], object]]) -> None:
        """Take the processor time of both sides for these calls, for each of them."""
        before, began = self._cpu(), time.process_time()
        for call in calls:
            call()
        self.own.append((time.process_time() - began) / len(calls))
        self.server[kind].append((self._cpu() - before) / len(calls))

    def _cpu(self) -> float:
        info = self._client.info("cpu")
        return float(info["used_cpu_sys"] + info["used_cpu_user"])

    def medians(self) -> dict[str, float]:
        """Return seconds for one call of each kind."""
        return {kind: median(times) for kind, times in self.server.items()}


class Shard:
    """One shard on a real server, and an owner that claims from it."""

    def __init__(self, client: redis.Redis, workspaces: int) -> None:
        self.client = client
        self.store = Store(RedisEngine(client, namespace=f"scale-{workspaces}"))
        self.names = [f"w{n}" for n in range(workspaces)]
        self._random = Random(1)  # noqa: S311 - no secret
        self._number = self._job = 0
        self._fences: list[int] = []

    def grow(self) -> float:
        """Let each workspace have a job; return how many bytes of memory each takes."""
        before = self._memory()
        for start in range(0, len(self.names), AT_ONCE):
            some = self.names[start : start + AT_ONCE]
            self.store.publish_many([(self._new(name), Admission(is_new=True)) for name in some])
        return (self._memory() - before) / len(self.names)

    def _memory(self) -> int:
        return int(self.client.info("memory")["used_memory"])

    def _new(self, workspace: str) -> Job:
        self._job += 1
        return Job(f"job{self._job:013d}", workspace, QUEUE, "task", PAYLOAD)

    def publish(self) -> None:
        """Publish one job of any workspace."""
        job = self._new(self._random.choice(self.names))
        self.store.publish(job, Admission(is_new=True))

    def claim(
        self, n: int, times: Sequence[Time], *, ends: bool = False, queue: str = QUEUE
    ) -> None:
        """Claim; end what runs in the same call, or let it run."""
        finishes = self._ends() if ends else ()
        self._number += 1
        claimed = self.store.claim(
            owner="measured",
            number=self._number,
            queues=[queue],
            n=n,
            lease_seconds=LEASE_SECONDS,
            max_deliveries=3,
            finishes=finishes,
            times=times,
        )
        self._fences += [lease.fence for lease in claimed.leases]

    def _ends(self) -> tuple[Finish, ...]:
        fences, self._fences = self._fences[:EIGHT], self._fences[EIGHT:]
        return tuple(Finish(fence, seconds=0.001) for fence in fences)

    def finish(self) -> None:
        """End what runs."""
        while self._fences:
            self.claim(0, (), ends=True)

    def renew(self) -> None:
        """Renew the leases that run."""
        progress = [(fence, 0.001) for fence in self._fences[:EIGHT]]
        self.store.renew(progress, owner="measured", lease_seconds=LEASE_SECONDS)

    def stands(self) -> None:
        """Look how the queue stands."""
        self.store.stands([QUEUE], TOLD)


class Wait:
    """Waits for a token on a connection of its own, and is told to wait no longer."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._connection: Any = client.connection_pool.get_connection()
        self._id = self._ask("CLIENT", "ID")

    def _ask(self, *words: object) -> Any:
        self._connection.send_command(*words)
        return self._connection.read_response()

    def once(self) -> None:
        """Both."""
        self._connection.send_command("BLPOP", "none", 5)
        while not self._client.execute_command("CLIENT", "UNBLOCK", self._id):
            pass
        self._connection.read_response()


def measure(sizes: Sequence[int], *, rounds: int, calls: int) -> Prices:
    """Fill a shard with so many workspaces for each size, and time calls in turns on all."""
    with embedded_redis() as server, server.client() as client:
        client.config_set("zset-max-listpack-entries", 0)  # as docs/production.md says
        shards = {size: Shard(client, size) for size in sizes}
        bytes_each = [shard.grow() for shard in shards.values()][-1]
        meters = {size: Meter(client) for size in sizes}
        wait = Wait(client)
        for _ in range(rounds):
            for size, shard in shards.items():
                _round(meters[size], shard, wait, calls)
            meters[sizes[0]].time("SET", [lambda: client.set("plain", PAYLOAD)] * calls)
    found = tuple(Measured(size, meter.medians()) for size, meter in meters.items())
    client_seconds = median([own for meter in meters.values() for own in meter.own])
    return Prices(found, client_seconds, bytes_each)


def _round(meter: Meter, shard: Shard, wait: Wait, calls: int) -> None:
    few = max(1, calls // EIGHT)
    for _ in range(4 * EIGHT):  # so that no claim below finds too few
        shard.publish()
    meter.time("publish", [shard.publish] * (calls * 8))
    meter.time("wait and unblock", [wait.once] * calls)
    for side, times in SIDES.items():
        _claims(meter, shard, side, times, calls, few)
    meter.time("stands", [shard.stands] * calls)


def _claims(
    meter: Meter, shard: Shard, side: str, times: Sequence[Time], calls: int, few: int
) -> None:
    def claim(n: int, *, ends: bool = False, queue: str = QUEUE) -> Callable[[], None]:
        return lambda: shard.claim(n, times, ends=ends, queue=queue)

    meter.time(f"empty, {side}", [claim(1, queue="none")] * calls)
    meter.time(f"claim 1, {side}", [claim(1)] * calls)
    shard.finish()
    shard.claim(1, times)
    meter.time(f"both 1, {side}", [claim(1, ends=True)] * calls)
    shard.finish()
    meter.time(f"claim 8, {side}", [claim(EIGHT)] * few)
    meter.time("renew 8", [shard.renew] * calls)
    shard.finish()
    shard.claim(EIGHT, times)
    meter.time(f"both 8, {side}", [claim(EIGHT, ends=True)] * few)
    shard.finish()
