"""A prefork worker that traces: the span of a run is made in the process that runs it."""

from __future__ import annotations

from typing import Any

from tests.tracing.spans import exporter, named, trace_of


def test_a_child_continues_the_trace_of_the_publish(shop: Any) -> None:
    """The task finds it current, with how long its job waited; the main process makes none."""
    exporter().clear()
    shop.app_name = "traced"
    url = shop.url(tracing="true")
    worker = shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    shop.publisher(url).send("traced.work", workspace="ada")
    shop.ledger.wait("span", 1)
    (publish,) = named("publish celery")
    (span,), (run,) = shop.ledger.lines("span"), shop.ledger.lines("run")
    assert span["name"] == "process celery"
    assert trace_of(publish) == span["trace"] == run["trace"]
    assert 0 <= span["waited"] < 60
    assert run["parent"] == worker.pid
    assert span["pid"] == run["pid"] != worker.pid
