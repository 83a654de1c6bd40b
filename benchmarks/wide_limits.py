"""(m) A limit over all shards, far from reached: what a lone job waits, and what a job costs."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from _bench.messages import QUEUE
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.turns import alternate, own_server

from fairqueue import FairQueue
from fairqueue.adapters import Finish

SHARDS = (2, 8)
FAR = 1_000
"""A total concurrency that is far from reached."""


@dataclass(frozen=True)
class Turn:
    """What some jobs took."""

    waits: list[float]
    """Milliseconds from the publish of each lone job to its start."""
    micros: float
    """Microseconds for each of many that are ended and claimed one by one."""

    @property
    def late(self) -> float:
        """The wait that one in twenty exceeds."""
        return statistics.quantiles(self.waits, n=20)[-1]


def measure(options: Options, progress: Progress) -> Report:
    """Alternate between a store with such a limit and one without."""
    count, turns = options.size(300, 20), options.turns_of(5)
    rows: list[Row] = []
    for shards in SHARDS:
        work = progress.start(f"(m) a limit over {shards} shards", 2 * (turns + 1))
        limits = {"with it": FAR, "without": None}
        play = partial(_turn, shards=shards, count=count)
        found = alternate(tuple(limits), turns, work, lambda way, of=limits, do=play: do(of[way]))
        work.done()
        ours, peer = found.values()
        for what, unit, read, target in (
            ("wait, median", "ms", lambda turn: statistics.median(turn.waits), 15.0),
            ("wait, p95", "ms", lambda turn: turn.late, 60.0),
        ):
            bound = Target(at_most=target, absolute=True)
            rows.append(
                Row(f"{what}, {shards} shards", unit, [*map(read, ours)], [*map(read, peer)], bound)
            )
        micros = [[turn.micros for turn in some] for some in (ours, peer)]
        rows.append(Row(f"one by one, {shards} shards", "µs/job", *micros, Target(at_most=1.3)))
    return Report(f"(m) a total far from reached, {turns} turns", "with it", "without", rows)


def _turn(limit: int | None, *, shards: int, count: int) -> Turn:
    with own_server() as server:
        url = server.url
        with FairQueue(url, shards=shards, total_concurrency=limit) as core:
            core.connect()
            with _worker(url, shards, limit) as started:
                waits = [_wait(core, n, started) for n in range(count // 3)]
            return Turn(waits, _one_by_one(core, count))


@contextmanager
def _worker(url: str, shards: int, limit: int | None) -> Iterator[dict[str, float]]:
    """Run jobs of no length in a thread; give when each has started."""
    started: dict[str, float] = {}
    stops = threading.Event()

    def work() -> None:
        with FairQueue(url, shards=shards, total_concurrency=limit) as core:
            finishes: tuple[Finish, ...] = ()
            while not stops.is_set():
                claimed = core.claim(
                    [QUEUE], 1, wait_seconds=0.5 * (not finishes), finishes=finishes
                )
                started.update((lease.job.id, time.perf_counter()) for lease in claimed.leases)
                finishes = tuple(Finish(lease.fence, seconds=0.001) for lease in claimed.leases)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.5)
    yield started
    stops.set()
    thread.join()


def _wait(core: FairQueue, n: int, started: dict[str, float]) -> float:
    began = time.perf_counter()
    job = core.publish(b"x", queue=QUEUE, workspace=f"w{n}", task="noop")
    while job not in started:
        time.sleep(0.0005)
    time.sleep(0.02)
    return (started[job] - began) * 1e3


def _one_by_one(core: FairQueue, count: int) -> float:
    for n in range(count):
        core.publish(b"x", queue=QUEUE, workspace=f"w{n % 50}", task="noop")
    finishes: tuple[Finish, ...] = ()
    began = time.perf_counter()
    left = count
    while left:
        leases = core.claim([QUEUE], 1, finishes=finishes).leases
        finishes = tuple(Finish(lease.fence, seconds=0.001) for lease in leases)
        left -= len(leases)
    took = time.perf_counter() - began
    core.finish(finishes)
    return took / count * 1e6


if __name__ == "__main__":
    main(measure)
