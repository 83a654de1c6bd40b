"""(f) From the call of a task to its start: on an idle worker, and at some jobs per second."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from functools import partial
from random import uniform
from statistics import median

from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.turns import alternate, own_server, sides_on
from _bench.workers import CeleryWorker, Worker, working

IDLE_SECONDS = 0.02, 0.05
PART = 20
TARGET = Target(at_most=1.2)
RATES = 20, 100, 250
"""Jobs per second, one by one: the worker is nearly idle."""
RATE_SECONDS = 2.0
SOONER = Target(at_most=1)


def wait_of_one(worker: Worker) -> float:
    """Call one task on an idle worker; return the milliseconds until it starts."""
    time.sleep(uniform(*IDLE_SECONDS))
    began = time.monotonic()
    worker.publish(1)
    (started,) = worker.starts(1, look_seconds=0.002)
    return (started - began) * 1e3


def waits_at(worker: Worker, rate: int, seconds: float) -> list[float]:
    """Call tasks at a steady rate; return the milliseconds until each starts, in their order."""
    called: list[float] = []
    began = time.monotonic()
    for n in range(int(rate * seconds)):
        time.sleep(max(0.0, began + n / rate - time.monotonic()))
        called.append(time.monotonic())
        worker.publish(1)
    started = worker.starts(len(called), look_seconds=0.002)
    return [(start - call) * 1e3 for call, start in zip(called, started, strict=True)]


def measure(options: Options, progress: Progress) -> Report:
    """Call a task on each side in turn; both workers run and are idle."""
    calls = options.turns_of(400)
    with own_server() as server, ExitStack() as stack:
        sides = sides_on(server, options, workspace_from="kwarg:tenant_id")
        processes = os.cpu_count() or 1
        workers = {
            side: stack.enter_context(
                working(partial(CeleryWorker, url=side.url, concurrency=processes))
            )
            for side in sides
        }
        work = progress.start("(f) calls", (calls + 1) * len(sides))
        waits = alternate(sides, calls, work, lambda side: wait_of_one(workers[side]))
        work.done()
        turns, seconds = options.turns_of(9), options.size(RATE_SECONDS, 0.3)
        paced = {
            rate: alternate(
                sides,
                turns,
                progress.start(f"(f) {rate}/s", (turns + 1) * len(sides)),
                lambda side, rate=rate: waits_at(workers[side], rate, seconds),
            )
            for rate in RATES
        }
    ours, peer = sides
    rows = [
        Row("p50", "ms", *([median(part) for part in _parts(waits[s])] for s in sides), TARGET),
        Row("p99", "ms", *([_p99(waits[side])] for side in sides), TARGET),
    ]
    for rate, found in paced.items():
        for name, of, target in (("p50", median, SOONER), ("p99", _p99, TARGET)):
            figures = ([of(turn) for turn in found[side]] for side in (ours, peer))
            rows.append(Row(f"{name} at {rate} jobs/s", "ms", *figures, target))
    title = f"(f) From call to start on an idle worker, {calls} calls of each side"
    return Report(title, ours.name, peer.name, rows)


def _parts(waits: list[float]) -> list[list[float]]:
    return [waits[start : start + PART] for start in range(0, len(waits), PART)]


def _p99(waits: list[float]) -> float:
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * 0.99))]


if __name__ == "__main__":
    main(measure)
