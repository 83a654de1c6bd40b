"""Measures what calls cost a real server's processor, beside more and more workspaces."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from statistics import median
from typing import Any

import redis

from fairqueue import Job
from fairqueue._shards import Time
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission, Finish
from fairqueue.testing import embedded_redis
from tests.scale.batched import Batched
from tests.scale.prices import EIGHT, Measured, Prices

QUEUE = "q"
PAYLOAD = b"x" * 700  # about the size of a Celery message
AT_ONCE = 100
LEASE_SECONDS = 3600.0
OTHERS: tuple[Time, ...] = ((0.0, None),)
SIDES: dict[str, Sequence[Time]] = {"alone": (), "told": OTHERS}
"""With one shard a claim says nothing of others; with several it tells the time."""


Call = Callable[[], Any]
OWN = 50


class Meter:
    """Times calls in turns; what a kind of call costs is the median of its turns."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._seconds: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timing(self, kind: str, calls: int) -> Iterator[None]:
        """Take the server's processor time for each of this many calls in the block."""
        before = self._cpu()
        yield
        self._seconds[kind].append((self._cpu() - before) / calls)

    def _cpu(self) -> float:
        info = self._client.info("cpu")
        return float(info["used_cpu_sys"] + info["used_cpu_user"])

    def medians(self) -> dict[str, float]:
        """Return seconds for one call of each kind."""
        return {kind: median(seconds) for kind, seconds in self._seconds.items()}


class Shard:
    """One shard on a real server, and an owner that claims from it."""

    def __init__(self, client: redis.Redis, workspaces: int) -> None:
        self._client = client
        self._engine = Batched(client, namespace=f"scale-{workspaces}")
        self._store = Store(self._engine)
        self._names = [f"w{n}" for n in range(workspaces)]
        self._random = Random(1)
        self._number = self._job = 0
        self.meter = Meter(client)
        self.running: list[int] = []
        """Fences."""

    def grow(self) -> float:
        """Let each workspace have a job; return how many bytes of memory each takes."""
        before = self._memory()
        for start in range(0, len(self._names), AT_ONCE):
            some = self._names[start : start + AT_ONCE]
            self._store.publish_many([(self._new(name), Admission(is_new=True)) for name in some])
        self._claim(0, 1, (), ())()
        self._store.stands([QUEUE], OTHERS)
        self._publish()()
        return (self._memory() - before) / len(self._names)

    def _memory(self) -> int:
        return int(self._client.info("memory")["used_memory"])

    def _new(self, workspace: str) -> Job:
        self._job += 1
        return Job(f"job{self._job:013d}", workspace, QUEUE, "task", PAYLOAD)

    def _time(self, kind: str, calls: Sequence[Call]) -> list[Any]:
        self._engine.pack(calls)
        with self.meter.timing(kind, len(calls)):
            self._engine.send()
        return self._engine.replies_to(calls)

    def _publish(self) -> Call:
        job = self._new(self._random.choice(self._names))
        return lambda: self._store.publish(job, Admission(is_new=True))

    def publish(self, n: int) -> None:
        """Publish jobs of any workspaces."""
        self._time("publish", [self._publish() for _ in range(n)])

    def _claim(
        self, number: int, n: int, ends: Sequence[int], times: Sequence[Time], queue: str = QUEUE
    ) -> Call:
        finishes = tuple(Finish(fence, seconds=0.001) for fence in ends)
        self._number = number = number or self._number + 1
        return lambda: self._store.claim(
            owner="measured",
            number=number,
            queues=[queue],
            n=n,
            lease_seconds=LEASE_SECONDS,
            max_deliveries=3,
            finishes=finishes,
            times=times,
        )

    def claim(self, kind: str, calls: int, n: int, times: Sequence[Time], **where: str) -> None:
        """Claim this many times."""
        done = self._time(kind, [self._claim(0, n, (), times, **where) for _ in range(calls)])
        self.running += [lease.fence for claimed in done for lease in claimed.leases]

    def claim_and_end(self, kind: str, n: int, times: Sequence[Time]) -> None:
        """End all that runs, this many at once, and claim as many."""
        ends, self.running = self.running, []
        parts = [ends[at : at + n] for at in range(0, len(ends), n)]
        done = self._time(kind, [self._claim(0, n, part, times) for part in parts])
        self.running = [lease.fence for claimed in done for lease in claimed.leases]

    def end(self) -> None:
        """End all that runs."""
        while self.running:
            some, self.running = self.running[:EIGHT], self.running[EIGHT:]
            self._claim(0, 0, some, ())()

    def renew(self, calls: int) -> None:
        """Renew leases."""
        progress = [(fence, 0.001) for fence in self.running[:EIGHT]]
        owner = {"owner": "measured", "lease_seconds": LEASE_SECONDS}
        renew = partial(self._store.renew, progress, **owner)  # type: ignore[arg-type]
        renew()
        self._time("renew 8", [renew] * calls)

    def stands(self, calls: int) -> None:
        """Look how the queue stands."""
        self._time("stands", [partial(self._store.stands, [QUEUE], OTHERS)] * calls)

    def own_time(self) -> float:
        """Return the client's processor time for a claim by itself."""
        began = time.process_time()
        for _ in range(OWN):
            self._claim(0, 1, (), OTHERS, "none")()
        return (time.process_time() - began) / OWN

    def own_time_of_end(self) -> float:
        """Return the client's processor time for the end of a wait on one of several shards."""
        waiters = [self._store.waiter(["none"]) for _ in range(EIGHT)]
        spent = 0.0
        for _ in range(OWN // EIGHT):
            for waiter in waiters:
                waiter.arm(LEASE_SECONDS)
            began = time.process_time()
            for waiter in waiters:
                waiter.begin_disarm()
            for waiter in waiters:
                waiter.disarm()
            spent += time.process_time() - began
        for waiter in waiters:
            waiter.close()
        return spent / (OWN // EIGHT * EIGHT)


def waits(client: redis.Redis, meter: Meter, calls: int) -> None:
    """Time waits for a token, on a connection of its own, and their ends."""
    connection: Any = client.connection_pool.get_connection()
    connection.send_command("CLIENT", "ID")
    number = connection.read_response()
    with meter.timing("wait and unblock", calls):
        for _ in range(calls):
            connection.send_command("BLPOP", "none", 5)
            while not client.execute_command("CLIENT", "UNBLOCK", number):
                pass
            connection.read_response()
    client.connection_pool.release(connection)


def plain(client: redis.Redis, meter: Meter, calls: int) -> None:
    """Time a plain command one by one and in one round trip: the difference is a call's own."""
    with meter.timing("SET", calls):
        for _ in range(calls):
            client.set("plain", PAYLOAD)
    with client.pipeline(transaction=False) as pipe, meter.timing("SET, packed", calls):
        for _ in range(calls):
            pipe.set("plain", PAYLOAD)
        pipe.execute()


def measure(sizes: Sequence[int], *, rounds: int, calls: int) -> Prices:
    """Fill a shard with this many workspaces for each size, and time calls in turns on all."""
    with embedded_redis() as server, server.client() as client:
        client.config_set("zset-max-listpack-entries", 0)  # as docs/production.md says
        shards = {size: Shard(client, size) for size in sizes}
        bytes_each = [shard.grow() for shard in shards.values()][-1]
        common, own, own_end = Meter(client), [], []
        for _ in range(rounds):
            for shard in shards.values():
                _round(shard, calls)
            waits(client, common, calls)
            plain(client, common, 10 * calls)
            own.append(shards[sizes[0]].own_time())
            own_end.append(shards[sizes[0]].own_time_of_end())
    both = common.medians()
    call = max(0.0, both["SET"] - both["SET, packed"])
    found = [_measured(size, shard, call, both) for size, shard in shards.items()]
    return Prices(found, median(own), median(own_end), call, both["SET, packed"], bytes_each)


def _measured(size: int, shard: Shard, call: float, common: dict[str, float]) -> Measured:
    seconds = {kind: each + call for kind, each in shard.meter.medians().items()}
    return Measured(size, seconds | {"wait and unblock": common["wait and unblock"]})


def _round(shard: Shard, calls: int) -> None:
    shard.publish(calls * 10)
    for side, times in SIDES.items():
        shard.claim(f"empty, {side}", calls, 1, times, queue="none")
        shard.claim(f"claim 1, {side}", calls, 1, times)
        shard.claim_and_end(f"both 1, {side}", 1, times)
        shard.end()
        few = max(1, calls // EIGHT)
        shard.claim(f"claim 8, {side}", few, EIGHT, times)
        shard.claim_and_end(f"both 8, {side}", EIGHT, times)
        if side == "told":
            shard.renew(calls)
        shard.end()
    shard.stands(calls)
