"""What a publish does beside the framework: counted in calls of Python in our own modules.

They are counted in a process of its own, run as this file: where greenlet is loaded, CPython 3.11
may spin for ever under a profiler.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import dramatiq
from celery import Celery
from dramatiq.brokers.redis import RedisBroker

from fairqueue_dramatiq import FairQueueMiddleware

MOST = {"delay": 142, "send": 118}
OWN = {"fairqueue", "fairqueue_celery", "fairqueue_dramatiq"}


def _work(n: int, tenant_id: str) -> None:
    """It is never run here."""


class Calls(NamedTuple):
    """Calls of Python functions, those of our modules among them."""

    all: int
    own: int


def _calls(publish: Callable[..., Any]) -> Calls:
    made: list[bool] = []

    def count(frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            made.append(not OWN.isdisjoint(Path(frame.f_code.co_filename).parts))

    for _ in range(3):  # the first connect and fill caches
        made.clear()
        sys.setprofile(count)
        try:
            publish(1, tenant_id="ada")
        finally:
            sys.setprofile(None)
    return Calls(len(made), sum(made))


def _delay(broker: str) -> Calls:
    app = Celery("calls", broker=broker, set_as_current=False)
    return _calls(app.task(name="work", shared=False, ignore_result=True)(_work).delay)


def _send(url: str, namespace: str, *middleware: Any) -> Calls:
    broker = RedisBroker(url=url, namespace=namespace)
    for each in middleware:
        broker.add_middleware(each)
    return _calls(dramatiq.actor(broker=broker)(_work).send)


def _measure(url: str, namespace: str) -> dict[str, Calls]:
    fair = f"?namespace={namespace}&workspace_from=kwarg:tenant_id"
    scheme, _, address = url.partition("://")
    ours, stock = {"unix": ("fairqueue+socket", "redis+socket")}.get(scheme, ("fairqueue", scheme))
    settings: dict[str, Any] = {"namespace": f"{namespace}-d", "workspace_from": "kwarg:tenant_id"}
    return {
        "delay": _delay(f"{ours}://{address}{fair}"),
        "delay of Celery": _delay(f"{stock}://{address}"),
        "send": _send(url, namespace, FairQueueMiddleware(url=url, **settings)),
        "send of Dramatiq": _send(url, f"{namespace}-of-dramatiq"),
    }


def test_a_publish_costs_few_calls_beside_the_frameworks_own(
    redis_url: str, namespace: str
) -> None:
    """From the call to the socket, and back."""
    command = [sys.executable, __file__, redis_url, namespace]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    assert [name for name, most in MOST.items() if found[name][1] > most] == []


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measure(*sys.argv[1:])))
