"""Limits of an actor in a Dramatiq app: its name is that of the task."""

from __future__ import annotations

import threading
import time
from collections import Counter

import dramatiq

from fairqueue import adapters
from fairqueue_dramatiq import FairQueueMiddleware
from tests.integrations.dramatiq.conftest import Start, brokers


def test_limits_of_an_actor(start: Start) -> None:
    """They hold in total and for each workspace; other actors of the workspace continue."""
    lock, now, most = threading.Lock(), Counter[str](), Counter[str]()

    def run(actor: str) -> None:
        names = (actor, f"{actor} of {adapters.current_workspace()}")
        with lock:
            now.update(names)
            most.update({name: max(0, now[name] - most[name]) for name in names})
        time.sleep(0.05)
        with lock:
            now.subtract(names)

    limits = {"report": {"concurrency": 2, "workspace_concurrency": 1}}
    for broker in brokers(FairQueueMiddleware(tasks=limits)):
        report, mail = (
            dramatiq.actor(run, actor_name=name, broker=broker) for name in ("report", "mail")
        )
        for workspace in ("ada", "bea", "cleo") * 4:
            report.send_with_options(args=("report",), workspace=workspace)
            mail.send_with_options(args=("mail",), workspace=workspace)
        start(broker, threads=8)
        broker.join("default", timeout=60_000)
    assert most["report"] == 2
    assert {most[f"report of {name}"] for name in ("ada", "bea", "cleo")} == {1}
    assert most["mail"] > 2
