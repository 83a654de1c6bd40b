"""(l) Three servers beside one: what a job costs them, how even they are, how fair the order is.

Two cores have no room for three full servers and their clients. So the jobs per second are those
at which the busiest server would fill a core of its own, by Redis's own count of its time.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from _bench.messages import QUEUE
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.spent import Spent, spending
from _bench.turns import alternate, own_server
from _bench.workers import CeleryWorker, working

from fairqueue import FairQueue
from fairqueue.adapters import Finish

PAYLOAD = b"x" * 700  # about the size of a Celery message
BUSY = [f"client-{n}" for n in range(300)]
NAPPERS = [f"napper-{n}" for n in range(24)]
SLOTS, NAP_SECONDS = 16, 0.05
SERVERS, SHARDS = 3, 9
"""Of eight shards, two servers would have three and the last one two."""

WAYS = {"by eights": 8, "one by one": 1}


@dataclass(frozen=True)
class Place:
    """Servers, the shards on them, and a client of each server."""

    hosts: str
    shards: int
    clients: Sequence[Any]

    @contextmanager
    def spending(self) -> Iterator[list[Spent]]:
        """Measure the block on each server."""
        with ExitStack() as stack:
            yield [stack.enter_context(spending(client)) for client in self.clients]

    def clear(self) -> None:
        """Forget all jobs."""
        for client in self.clients:
            client.flushdb()


@contextmanager
def place(servers: int, shards: int) -> Iterator[Place]:
    """Start servers that take one password, as those of one URL do."""
    secret = secrets.token_hex(16)
    with ExitStack() as stack:
        started = [stack.enter_context(own_server()) for _ in range(servers)]
        clients = [stack.enter_context(server.client()) for server in started]
        for client in clients:
            client.config_set("requirepass", secret)
        ports = ",".join(f"127.0.0.1:{server.port}" for server in started)
        yield Place(f":{secret}@{ports}/0", shards, clients)


@dataclass(frozen=True)
class Turn:
    """What each server spent for this many jobs."""

    count: int
    spent: Sequence[Spent]

    @property
    def rate(self) -> float:
        """Jobs per second at which the busiest server fills its core."""
        return self.count / self._busiest

    @property
    def micros(self) -> float:
        """Microseconds of processor time for each job, on all servers."""
        return self._whole / self.count * 1e6

    @property
    def load(self) -> float:
        """That of the busiest server, of the mean."""
        return self._busiest * len(self.spent) / self._whole

    @property
    def _busiest(self) -> float:
        return max(one.cpu for one in self.spent)

    @property
    def _whole(self) -> float:
        return sum(one.cpu for one in self.spent)


def measure(options: Options, progress: Progress) -> Report:
    """Publish and consume jobs of many workspaces; then let real workers nap."""
    count, turns = options.size(3_000, 60), options.turns_of(9)
    naps, seconds = min(turns, 3), options.size(8.0, 0.5)
    with ExitStack() as stack:
        places = [
            stack.enter_context(place(servers, shards))
            for servers, shards in ((SERVERS, SHARDS), (1, 1))
        ]
        work = progress.start("(l) shards", 2 * ((turns + 1) * len(WAYS) + naps + 1))

        def turn(n: int, *, at_once: int) -> Turn:
            return _turn(places[n], count, at_once)

        found = {
            way: alternate(range(2), turns, work, partial(turn, at_once=at_once))
            for way, at_once in WAYS.items()
        }
        fair = alternate(range(2), naps, work, lambda n: _fairness(places[n], seconds))
        work.done()
    rows = [row for way in WAYS for row in _rows(way, *found[way].values())]
    rows.append(Row("Jain, naps", "", fair[0], fair[1], Target(at_least=0.98, absolute=True)))
    title = f"(l) {SERVERS} servers, {SHARDS} shards, {turns} turns of {count:,} jobs"
    return Report(title, f"{SERVERS} servers", "one", rows)


def _rows(way: str, ours: Sequence[Turn], peer: Sequence[Turn]) -> Iterator[Row]:
    def row(what: str, unit: str, read: Callable[[Turn], float], target: Target) -> Row:
        return Row(f"{what}, {way}", unit, [*map(read, ours)], [*map(read, peer)], target)

    yield row("cores full", "jobs/s", lambda turn: turn.rate, Target(at_least=2.5))
    yield row("Redis", "µs of CPU/job", lambda turn: turn.micros, Target(at_most=1.2))
    bound = Target(at_most=1.2, absolute=True)
    yield row("the busiest server", "of the mean", lambda turn: turn.load, bound)


def _turn(where: Place, count: int, at_once: int) -> Turn:
    where.clear()
    with FairQueue(f"redis://{where.hosts}", shards=where.shards) as core:
        core.connect()
        with where.spending() as spent:
            for n in range(count):
                core.publish(PAYLOAD, queue=QUEUE, workspace=BUSY[n % len(BUSY)], task="noop")
            _take(core, count, at_once)
    return Turn(count, spent)


def _take(core: FairQueue, count: int, at_once: int) -> None:
    finishes: tuple[Finish, ...] = ()
    while count:
        leases = core.claim([QUEUE], min(count, at_once), finishes=finishes).leases
        finishes = tuple(Finish(lease.fence, seconds=0.001) for lease in leases)
        count -= len(leases)
    core.finish(finishes)


def _fairness(where: Place, seconds: float) -> float:
    """Jain's index of the worker-seconds of workspaces that all have more jobs than can run."""
    where.clear()
    url = f"fairqueue://{where.hosts}?shards={where.shards}&workspace_from=kwarg:tenant_id"
    length = Random(1)
    with working(partial(CeleryWorker, url=url, concurrency=SLOTS, pool="threads")) as worker:
        with worker.held():
            for _ in range(round(2 * seconds / NAP_SECONDS * SLOTS / len(NAPPERS))):
                for name in NAPPERS:
                    worker.nap(length.expovariate(1 / NAP_SECONDS), name)
        time.sleep(seconds)
        used = worker.napped()
    shares = [used[name] for name in NAPPERS]
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))


if __name__ == "__main__":
    main(measure)
