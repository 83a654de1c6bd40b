"""(b) Celery end to end: no-op tasks through real prefork workers."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.spent import Spent, cost, spending
from _bench.turns import alternate, own_server, sides_on
from _bench.workers import CeleryWorker, Worker, working

SETTLE_SECONDS = 0.05
BACKLOG = "a backlog, first to last start"
TOGETHER = "published meanwhile, call to last start"
PHASES = BACKLOG, TOGETHER
TARGETS = {BACKLOG: Target(at_least=2), TOGETHER: Target(at_least=1.8)}


@dataclass(frozen=True)
class Turn:
    """Tasks per second, and what Redis spent."""

    rates: dict[str, float]
    spent: dict[str, Spent]


def run(worker: Worker, client: Any, count: int) -> Turn:
    """Measure a backlog; then publish while the worker works, from first call to last start."""
    spent = {}
    with ExitStack() as spends:
        with worker.held():
            worker.publish(count)
            spent[BACKLOG] = spends.enter_context(spending(client))
        starts = worker.starts(count)
    backlog = (count - 1) / (starts[-1] - starts[0])
    time.sleep(SETTLE_SECONDS)
    with spending(client) as spent[TOGETHER]:
        began = time.monotonic()
        worker.publish(count)
        starts = worker.starts(count)
    together = count / (starts[-1] - began)
    time.sleep(SETTLE_SECONDS)
    return Turn({BACKLOG: backlog, TOGETHER: together}, spent)


def measure(options: Options, progress: Progress) -> Report:
    """Run one worker per side, each with its own server, and let them work in turn."""
    count, turns = options.size(1000, 40), options.turns_of(9)
    processes = os.cpu_count() or 1
    with ExitStack() as stack:
        servers = [stack.enter_context(own_server()) for _ in range(2)]
        sides = sides_on(servers[0], options, peer_on=servers[1], workspace_from="kwarg:tenant_id")
        running = {
            side: (
                stack.enter_context(
                    working(partial(CeleryWorker, url=side.url, concurrency=processes))
                ),
                stack.enter_context(server.client()),
            )
            for side, server in zip(sides, servers, strict=True)
        }
        work = progress.start("(b) tasks", (turns + 1) * len(sides))
        found = alternate(sides, turns, work, lambda side: run(*running[side], count))
        work.done()
    ours, peer = sides
    rows = [
        Row(phase, "tasks/s", *([turn.rates[phase] for turn in found[s]] for s in sides), target)
        for phase, target in TARGETS.items()
    ]
    costs = [
        cost(phase, side.name, [turn.spent[phase] for turn in of_side], count)
        for phase in PHASES
        for side, of_side in found.items()
    ]
    title = f"(b) Celery, prefork, {processes} processes, {turns} turns of {count:,} no-op tasks"
    return Report(title, ours.name, peer.name, rows, costs)


if __name__ == "__main__":
    main(measure)
