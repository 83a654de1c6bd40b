"""One worker's connection to Redis goes silent: it stays open, but nothing answers."""

from __future__ import annotations

import time
from typing import Any

from tests.redis.proxy import proxy_before

LEASE_SECONDS = 3.0


def test_a_worker_without_redis_stops_its_runs_before_others_start_them(shop: Any) -> None:
    """Late-acked runs are stopped in time, even if the worker's event loop stands still.

    A run that heeds no SIGTERM is killed; an early-acked one runs to its end.
    """
    url = shop.url(lease_seconds=LEASE_SECONDS, workspace_concurrency=1)
    with proxy_before(shop._server.url) as proxy:
        query = url.partition("?")[2]
        cut_off = f"fairqueue://127.0.0.1:{proxy.port}/0?{query}"
        shop.worker("-P", "prefork", "-c", "3", url=cut_off).ready()
        other = shop.worker("-P", "prefork", "-c", "3", "-Q", "nothing", url=url).ready()
        publisher = shop.publisher(url)
        control = shop.control(publisher, other)
        for workspace, deaf in (("ada", False), ("bob", True)):
            kwargs = {"seconds": 7.0, "deaf": deaf}
            publisher.send("breathe_late", 1, kwargs=kwargs, workspace=workspace)
        publisher.send("work", 1, kwargs={"seconds": 7.0}, workspace="eve")
        shop.ledger.wait("start", 3)
        time.sleep(1.5)  # the early ack is on its way
        proxy.silent = True
        silent = time.monotonic()
        control.add_consumer("celery", destination=[other.name])
        shop.ledger.wait("start", 2, workspace="ada")
        shop.ledger.wait("start", 2, workspace="bob")
        shop.ledger.wait("end", 1, workspace="eve")
        proxy.silent = False
        shop.ledger.wait("end", 1, workspace="ada")
        shop.ledger.wait("end", 1, workspace="bob")

    for workspace in ("ada", "bob"):
        first, second = shop.ledger.lines("start", workspace=workspace)
        last_sign = shop.ledger.lines("alive", workspace=workspace, pid=first["pid"])[-1]
        assert last_sign["at"] < second["at"], "it was stopped before it ran again"
        assert second["at"] - silent < 2 * LEASE_SECONDS + 1
        assert shop.ledger.lines("end", workspace=workspace, pid=first["pid"]) == []
    assert len(shop.ledger.lines("start", workspace="eve")) == 1
