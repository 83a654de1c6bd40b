"""The result backend is away as a task ends: the end of its run is reported all the same."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue.testing import embedded_redis
from tests.system.ledger import wait_for


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_a_result_that_is_refused_holds_no_slot(shop: Any, pool: str) -> None:
    """Early- and late-acked jobs are over, and the jobs behind them run in the same worker."""
    with embedded_redis() as results:
        results.client().config_set("maxmemory", 1)
        shop.config = {
            "result_backend": results.url.replace("unix://", "redis+socket://"),
            "result_backend_transport_options": {"retry_policy": {"max_retries": 0}},
        }
        url = shop.url(workspace_concurrency=1)
        worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
        publisher = shop.publisher(url)
        for n in range(3):
            publisher.send("work", n, workspace="ada")
            publisher.send("work_late", n, workspace="bob")
        for name in ("ada", "bob"):
            shop.ledger.wait("end", 3, workspace=name, seconds=20)
        wait_for(lambda: not shop.running("ada") and not shop.running("bob"), seconds=10)
    assert worker.process.poll() is None
    assert len(shop.ledger.lines("start")) == 6
