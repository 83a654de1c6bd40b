"""(j) What is sent together: groups of Celery and Dramatiq, a block of calls; and single calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import dramatiq
from _bench.options import Options, main
from _bench.progress import Progress
from _bench.report import Report, Row, Target
from _bench.spent import Spent, cost, spending
from _bench.turns import Side, alternate, own_server, sides_on
from celery import Celery, group
from dramatiq.brokers.redis import RedisBroker

import fairqueue_celery
import fairqueue_dramatiq

GROUP = "Celery, a group"
CALLS = "Celery, calls in a batch"
MESSAGES = "Dramatiq, a group"
SINGLE = "Celery, .delay()"
TARGETS = {GROUP: Target(at_least=5), SINGLE: Target(at_least=1.4)}
BY_PROCESSOR = {GROUP: Target(at_least=5), SINGLE: None}
"""Without the waits for Redis: the processor time of the thread that calls."""

Act = Callable[[], object]


def measure(options: Options, progress: Progress) -> Report:
    """Time from the call to its return; nothing consumes."""
    count, turns = options.size(1000, 20), options.turns_of(15)
    with own_server() as server, server.client() as client, ExitStack() as closing:
        sides = sides_on(server, options, workspace_from="kwarg:tenant_id")
        acts = {side: _acts(side, options, count, closing) for side in sides}
        kinds = tuple(acts[sides[0]])
        work = progress.start("(j) groups", len(kinds) * (turns + 1) * len(sides))

        def run(side: Side, kind: str) -> Spent:
            with spending(client) as spent:
                acts[side][kind]()
            time.sleep(0)  # the other processes of the machine
            return spent

        found = {
            kind: alternate(sides, turns, work, lambda side, kind=kind: run(side, kind))
            for kind in kinds
        }
        work.done()
    ours, peer = sides
    rows = [
        Row(kind, "tasks/s", _rates(of[ours], count), _rates(of[peer], count), TARGETS.get(kind))
        for kind, of in found.items()
    ]
    rows += [
        Row(
            f"{kind}, processor",
            "tasks/s",
            *(_rates(found[kind][s], count, own=True) for s in sides),
            target,
        )
        for kind, target in BY_PROCESSOR.items()
    ]
    costs = [
        cost(kind, side.name, spent, count)
        for kind, of in found.items()
        for side, spent in of.items()
    ]
    title = f"(j) sent together, call to return, {turns} turns of {count:,} tasks each"
    return Report(title, ours.name, peer.name, rows, costs)


def _acts(side: Side, options: Options, count: int, closing: ExitStack) -> dict[str, Act]:
    """What this side does in a turn of each kind."""
    is_ours = side.url.startswith("fairqueue") and not options.same
    app = Celery(side.name, broker=side.url, set_as_current=False)
    closing.callback(app.close)
    task: Any = app.task(name="work", shared=False)(_work)
    broker = _dramatiq_broker(side, is_ours=is_ours)
    closing.callback(broker.close)

    def calls() -> None:
        with fairqueue_celery.batch(app) if is_ours else nullcontext():
            for n in range(count):
                task.apply_async((n,), {"tenant_id": "acme"})

    def messages() -> None:
        dramatiq.group([_message(n) for n in range(count)], broker=broker).run()

    def tasks() -> None:
        group(task.s(n, tenant_id="acme") for n in range(count)).apply_async()

    def single() -> None:
        for n in range(count):
            task.delay(n, tenant_id="acme")

    return {GROUP: tasks, CALLS: calls, SINGLE: single, MESSAGES: messages}


def _work(n: int, tenant_id: str) -> None:
    """A task that is never run here."""


def _dramatiq_broker(side: Side, *, is_ours: bool) -> Any:
    url = "redis://" + side.url.partition("://")[2].partition("?")[0]
    broker = RedisBroker(url=url, namespace="bench-dramatiq")
    if is_ours:
        settings: dict[str, Any] = {"namespace": "bench-dramatiq"}
        broker.add_middleware(
            fairqueue_dramatiq.FairQueueMiddleware(
                url=url, workspace_from="kwarg:tenant_id", **settings
            )
        )
    broker.declare_queue("default")
    return broker


def _message(n: int) -> Any:
    return dramatiq.Message(
        queue_name="default", actor_name="work", args=(n,), kwargs={"tenant_id": "acme"}, options={}
    )


def _rates(turns: list[Spent], count: int, *, own: bool = False) -> list[float]:
    return [count / (spent.own_cpu if own else spent.wall) for spent in turns]


if __name__ == "__main__":
    main(measure)
