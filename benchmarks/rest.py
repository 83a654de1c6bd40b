"""(n) At rest: what an import costs, and what a Celery worker spends that has nothing to do."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.turns import Side, alternate, own_server, sides_on
from _bench.workers import CeleryWorker, Worker, working

STOCK_IMPORT = (
    "import celery, celery.app.amqp, celery.app.task, celery.backends.base, celery.canvas, "
    "kombu.transport.redis"
)
"""What a process has imported that has published a task on redis://."""
IMPORTS = {
    "import, above kombu's redis transport": (
        f"{STOCK_IMPORT}, fairqueue_celery.transport",
        STOCK_IMPORT,
        Target(at_most=80, absolute=True),
    ),
    "import fairqueue": ("import fairqueue", "pass", Target(at_most=150, absolute=True)),
}


def measure(options: Options, progress: Progress) -> Report:
    """Import in fresh processes, in turn; leave a worker of each side alone, in turn."""
    turns, seconds = options.turns_of(9), options.size(10.0, 0.5)
    rows = _imports(turns, progress)
    with ExitStack() as stack:
        servers = [stack.enter_context(own_server()) for _ in range(2)]
        sides = sides_on(servers[0], options, peer_on=servers[1], workspace_from="kwarg:tenant_id")
        processes = os.cpu_count() or 1
        made = [partial(CeleryWorker, url=side.url, concurrency=processes) for side in sides]
        idle = {
            side: (stack.enter_context(working(make)), stack.enter_context(server.client()))
            for side, make, server in zip(sides, made, servers, strict=True)
        }
        time.sleep(options.size(5.0, 0.0))  # what a start brings about is over
        turns = options.turns_of(5)
        work = progress.start("(n) idle", (turns + 1) * len(sides))
        found = alternate(sides, turns, work, lambda side: _rest(*idle[side], seconds))
        work.done()
    rows += _idle(sides, found)
    return Report("(n) starts and rest", sides[0].name, sides[1].name, rows)


def _imports(turns: int, progress: Progress) -> list[Row]:
    work = progress.start("(n) imports", 2 * len(IMPORTS) * (turns + 1))
    rows = []
    for what, (own, base, target) in IMPORTS.items():
        found = alternate((own, base), turns, work, _import_ms)
        above = [a - b for a, b in zip(found[own], found[base], strict=True)]
        rows.append(Row(what, "ms CPU", above, found[base], target))
    work.done()
    return rows


def _import_ms(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


Rest = dict[str, float]

LIMITS = {
    "CPU": ("ms/s", Target(at_most=1.2)),
    "commands": ("1/s", Target(at_most=1.5)),  # as Redis reads them; of a script one
}
ABOVE = {
    "threads": ("", Target(at_most=1, absolute=True)),
    "PSS": ("MB", Target(at_most=8, absolute=True)),
}


def _idle(sides: tuple[Side, Side], found: dict[Side, list[Rest]]) -> list[Row]:
    def row(what: str, unit: str, target: Target, *, above: bool = False) -> Row:
        own, peer = ([turn[what] for turn in found[side]] for side in sides)
        if above:
            own = [a - b for a, b in zip(own, peer, strict=True)]
        of_stock = " above stock's" if above else ""
        return Row(f"idle worker: {what}{of_stock}", unit, own, peer, target)

    ratios = [row(what, *limit) for what, limit in LIMITS.items()]
    return ratios + [row(what, *limit, above=True) for what, limit in ABOVE.items()]


def _rest(worker: Worker, client: Any, seconds: float) -> Rest:
    """What a worker, its children and its commands come to in this time."""
    pids = _with_children(worker.pid)
    cpu, commands = _cpu_ms(pids), client.info("stats")["total_reads_processed"]
    time.sleep(seconds)
    done = client.info("stats")["total_reads_processed"] - commands - 1  # one is this INFO
    return {
        "CPU": max(_cpu_ms(pids) - cpu, 0.001) / seconds,
        "commands": max(done, 1) / seconds,
        "threads": float(len(list(Path(f"/proc/{worker.pid}/task").iterdir()))),
        "PSS": sum(map(_pss_mb, pids)),
    }


def _with_children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def _cpu_ms(pids: list[int]) -> float:
    counts = (count for pid in pids for count in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(count.read_text().split()[0]) / 1e6 for count in counts)


def _pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main(measure)
