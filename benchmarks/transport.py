"""(a) kombu alone: messages published per second, and messages consumed and acked."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from _bench.messages import Traffic
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.spent import Spent, cost, spending
from _bench.turns import Side, alternate, own_server, sides_on

ANONYMOUS = "publish, anonymous exchange"
NAMED = "publish, named exchange"
TAKEN = "consume and ack"
TARGETS = {ANONYMOUS: Target(at_least=1.5), NAMED: Target(at_least=1.5), TAKEN: Target(at_least=2)}

Found = dict[str, dict[Side, list[Spent]]]


def measure(options: Options, progress: Progress) -> Report:
    """Run both sides in short turns on one server."""
    count, turns = options.size(200, 20), options.turns_of(25)
    with own_server() as server, server.client() as client:
        sides = sides_on(server, options)
        found = _phases(sides, client, count, turns, progress)
    ours, peer = sides
    rows = [
        Row(phase, "messages/s", _rates(of[ours], count), _rates(of[peer], count), TARGETS[phase])
        for phase, of in found.items()
    ]
    costs = [
        cost(phase, side.name, spent, count)
        for phase, of in found.items()
        for side, spent in of.items()
    ]
    title = f"(a) kombu, messages of Celery's, {turns} turns of {count:,} each"
    return Report(title, ours.name, peer.name, rows, costs)


def _phases(
    sides: tuple[Side, Side], client: Any, count: int, turns: int, progress: Progress
) -> Found:
    work = progress.start("(a) kombu", 3 * (turns + 1) * len(sides))
    with ExitStack() as stack:
        traffic = {side: stack.enter_context(Traffic(side.url)) for side in sides}

        def publish(side: Side, exchange: str) -> Spent:
            batch = traffic[side].batch(count)
            with spending(client) as spent:
                traffic[side].publish(batch, exchange)
            return spent

        def take(side: Side) -> Spent:
            with spending(client) as spent:
                traffic[side].consume(count)
            return spent

        found = {
            ANONYMOUS: alternate(sides, turns, work, lambda side: publish(side, "")),
            NAMED: alternate(sides, turns, work, lambda side: publish(side, "bench")),
            TAKEN: alternate(sides, turns, work, take),
        }
    work.done()
    return found


def _rates(turns: list[Spent], count: int) -> list[float]:
    return [count / spent.wall for spent in turns]


if __name__ == "__main__":
    main(measure)
