"""(e) Redis's processor time per job that is published, claimed and acked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from _bench.messages import QUEUE, WORKSPACES, Traffic
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.spent import Spent, cost, spending
from _bench.turns import Side, alternate, own_server, sides_on

from fairqueue import FairQueue
from fairqueue.adapters import Finish

PAYLOAD = b"x" * 700  # about the size of a Celery message
EIGHT = 8


@dataclass(frozen=True)
class Way:
    """One way to publish and consume jobs."""

    side: Side
    publish: Callable[[int], None]
    take: Callable[[int], None]


def measure(options: Options, progress: Progress) -> Report:
    """Publish and consume jobs, on both sides in turn."""
    count, turns = options.size(500, 20), options.turns_of(9)
    with own_server() as server, server.client() as client, ExitStack() as stack:
        ours, peer = sides_on(server, options)
        cores = [stack.enter_context(FairQueue(server.url, namespace=f"core{n}")) for n in (1, 8)]
        ways = {
            "kombu, publish + consume + ack": _kombu(ours, stack),
            "core, one by one": _core(cores[0], 1),
            "core, by eights": _core(cores[1], EIGHT),
            "": _kombu(peer, stack),
        }
        work = progress.start("(e) Redis's CPU", (turns + 1) * len(ways))
        found = alternate(list(ways), turns, work, lambda name: _turn(ways[name], client, count))
        work.done()
    of_peer = [_micros(turn, count) for turn in found[""]]
    rows = [
        Row(name, "µs of CPU/job", [_micros(t, count) for t in found[name]], of_peer, target)
        for name, target in zip(list(ways)[:3], (Target(at_most=1.2), None, None), strict=True)
    ]
    costs = [
        cost(called, name or peer.name, [turn[phase] for turn in of_way], count)
        for phase, called in (("publish", "publish"), ("take", "finish + claim"))
        for name, of_way in found.items()
    ]
    title = f"(e) Redis's processor time (INFO cpu) per job, {turns} turns of {count:,} jobs"
    return Report(title, ours.name, peer.name, rows, costs)


def _kombu(side: Side, stack: ExitStack) -> Way:
    traffic = stack.enter_context(Traffic(side.url))
    return Way(side, lambda count: traffic.publish(traffic.batch(count)), traffic.consume)


def _core(core: FairQueue, at_once: int) -> Way:
    def publish(count: int) -> None:
        for n in range(count):
            core.publish(PAYLOAD, queue=QUEUE, workspace=f"client-{n % WORKSPACES}", task="noop")

    def take(count: int) -> None:
        finishes: tuple[Finish, ...] = ()
        while count:
            leases = core.claim([QUEUE], min(count, at_once), finishes=finishes).leases
            finishes = tuple(Finish(lease.fence, seconds=0.001) for lease in leases)
            count -= len(leases)
        core.finish(finishes)

    return Way(Side("core", ""), publish, take)


def _turn(way: Way, client: Any, count: int) -> dict[str, Spent]:
    found = {}
    for phase, act in (("publish", way.publish), ("take", way.take)):
        with spending(client) as found[phase]:
            act(count)
    return found


def _micros(turn: dict[str, Spent], count: int) -> float:
    return sum(spent.cpu for spent in turn.values()) / count * 1e6


if __name__ == "__main__":
    main(measure)
