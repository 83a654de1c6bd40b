"""(i) Jobs per second that one Redis carries: its core is full, and no client keeps it waiting.

A client in Python takes longer for a job than Redis, so two cores have no room for enough of them.
What can be packed beforehand is sent in pipelines, without the clients' time: our publishes, and
all that stock kombu sends. A claim of ours ends jobs that an earlier reply named; real clients
make it, in threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from _bench.bulk import publishes_of
from _bench.messages import QUEUE, WORKSPACES
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.replay import Replay
from _bench.report import Report, Row
from _bench.spent import Spent, cost, spending
from _bench.turns import OURS, STOCK, alternate

from fairqueue import FairQueue
from fairqueue.adapters import Finish
from fairqueue.testing import EmbeddedServer, embedded_redis

PAYLOAD = b"x" * 700  # about the size of a Celery message
CLAIMERS = 4
EIGHT = 8
NAMESPACE = "fairqueue"
PRIORITY_STEPS = (3, 6, 9)  # kombu's own, beside 0

Play = Callable[[], None]


def measure(options: Options, progress: Progress) -> Report:
    """Publish and consume jobs as fast as Redis does it, on both sides in turn."""
    count, turns = options.size(4_000, 160), options.turns_of(9)
    with embedded_redis() as server, server.client() as client:
        sides = {OURS: _ours, STOCK: _stock}
        work = progress.start("(i) Redis, its core full", (turns + 1) * len(sides))

        def turn(name: str) -> dict[str, Spent]:
            phases = sides[name](server, count)
            return {phase: _spent(play, client) for phase, play in phases.items()}

        found = alternate(list(sides), turns, work, turn)
        sets = Replay([("SET", f"key-{n % 100}", PAYLOAD) for n in range(count)])
        plain = count / _spent(partial(sets.play, server), client).cpu
        work.done()
    rows = [
        Row(what, "jobs/s of a core", *(_rates(found[name], phases, count) for name in sides))
        for what, phases in (
            ("published, consumed and acked", ("publish", "consume")),
            ("published", ("publish",)),
        )
    ]
    costs = [
        cost(phase, name, [turn[phase] for turn in found[name]], count)
        for phase in ("publish", "consume")
        for name in sides
    ]
    notes = [f"{name}: Redis's core was {_share(found[name]):.0%} full." for name in sides]
    notes.append(f"The same core carries {plain:,.0f} SETs of {len(PAYLOAD)} bytes per second.")
    title = f"(i) one Redis, its core full, {turns} turns of {count:,} jobs"
    return Report(title, OURS, STOCK, rows, costs, notes)


def _spent(play: Play, client: Any) -> Spent:
    with spending(client) as spent:
        play()
    return spent


def _rates(turns: Sequence[dict[str, Spent]], phases: Sequence[str], count: int) -> list[float]:
    """Jobs per second of Redis's processor time: what is left for clients is not counted."""
    return [count / sum(turn[phase].cpu for phase in phases) for turn in turns]


def _share(turns: Sequence[dict[str, Spent]]) -> float:
    spent = [one for turn in turns for one in turn.values()]
    return sum(one.cpu for one in spent) / sum(one.wall for one in spent)


# Ours


def _ours(server: EmbeddedServer, count: int) -> dict[str, Play]:
    names = [f"client-{n % WORKSPACES}" for n in range(count)]
    publishes = Replay(publishes_of(server.url, NAMESPACE, names, PAYLOAD))
    threads = partial(_claim_in_threads, server.url, count)
    return {"publish": partial(publishes.play, server), "consume": threads}


def _claim_in_threads(url: str, count: int) -> None:
    with ThreadPoolExecutor(CLAIMERS) as pool:
        for ended in [pool.submit(_claim, url, count // CLAIMERS) for _ in range(CLAIMERS)]:
            ended.result()


def _claim(url: str, count: int) -> None:
    """Claim this many jobs by eights, and end each eight with the next claim."""
    finishes: tuple[Finish, ...] = ()
    with FairQueue(url, namespace=NAMESPACE) as core:
        while count:
            leases = core.claim([QUEUE], min(count, EIGHT), finishes=finishes).leases
            finishes = tuple(Finish(lease.fence, seconds=0.001) for lease in leases)
            count -= len(leases)
        core.finish(finishes)


# Stock


def _stock(server: EmbeddedServer, count: int) -> dict[str, Play]:
    """What kombu's Redis transport sends for each message, under its own names."""
    tags = [f"{n:036x}" for n in range(count)]
    publishes = Replay([("LPUSH", QUEUE, PAYLOAD)] * count)
    steps = [
        command
        for tag in tags
        for command in (
            ("BRPOP", QUEUE, *(f"{QUEUE}\x06\x16{step}" for step in PRIORITY_STEPS), 1),
            ("MULTI",),
            ("ZADD", "unacked_index", time.time(), tag),
            ("HSET", "unacked", tag, PAYLOAD),
            ("EXEC",),
            ("MULTI",),
            ("ZREM", "unacked_index", tag),
            ("HDEL", "unacked", tag),
            ("EXEC",),
        )
    ]
    consumes = Replay(steps)
    return {"publish": partial(publishes.play, server), "consume": partial(consumes.play, server)}


if __name__ == "__main__":
    main(measure)
