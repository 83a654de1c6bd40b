"""(g) Dramatiq end to end: no-op actors through a real worker process of eight threads."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.spent import cost
from _bench.turns import Side, alternate, own_server
from _bench.workers import DramatiqWorker, working
from end_to_end import BACKLOG, PHASES, TOGETHER, run

THREADS = 8
TARGETS = {BACKLOG: Target(at_least=3), TOGETHER: Target(at_least=1.5)}
OURS: dict[str, dict[str, Any]] = {
    "with the middleware": {},
    "with a limit": {"workspace_concurrency": THREADS},  # never reached here
}
PEER = "RedisBroker alone"


def settings_of(name: str, url: str, *, same: bool) -> dict[str, Any]:
    """The settings of a side's middleware; empty: the side has no middleware."""
    if same or name == PEER:
        return {}
    return {"url": url, "workspace_from": "kwarg:tenant_id", **OURS[name]}


def measure(options: Options, progress: Progress) -> Report:
    """Run one worker per side, each with its own server, and let them work in turn."""
    count, turns = options.size(2000, 40), options.turns_of(9)
    with ExitStack() as stack:
        running = {}
        for name in (*OURS, PEER):
            server = stack.enter_context(own_server())
            url = f"redis://{server.tcp_address}/0"
            settings = settings_of(name, url, same=options.same)
            start = partial(DramatiqWorker, url=url, settings=settings, threads=THREADS)
            worker = stack.enter_context(working(start))
            running[Side(name, url)] = (worker, stack.enter_context(server.client()))
        work = progress.start("(g) actors", (turns + 1) * len(running))
        found = alternate(list(running), turns, work, lambda side: run(*running[side], count))
        work.done()
    *ours, peer = running
    rows = [
        Row(
            phase if not OURS[side.name] else f"the same, with a limit: {phase}",
            "actors/s",
            [turn.rates[phase] for turn in found[side]],
            [turn.rates[phase] for turn in found[peer]],
            TARGETS[phase],
        )
        for side in ours
        for phase in PHASES
    ]
    costs = [
        cost(phase, side.name, [turn.spent[phase] for turn in of_side], count)
        for phase in PHASES
        for side, of_side in found.items()
    ]
    title = f"(g) Dramatiq, {THREADS} threads, {turns} turns of {count:,} no-op actors"
    return Report(title, ours[0].name, peer.name, rows, costs)


if __name__ == "__main__":
    main(measure)
