"""One worker's link to Redis falls silent: its connections stay open, and nothing answers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.system.celery.proxy import silent_proxy

pytestmark = [pytest.mark.system, pytest.mark.slow]

LEASE_SECONDS = 3.0


def test_a_worker_that_is_cut_off_stops_its_runs_before_others_begin_them(shop: Any) -> None:
    """Late-acked runs are stopped in time, also where the worker's event loop stands still.

    A run that heeds no SIGTERM is killed; an early-acked one runs to its end.
    """
    url = shop.url(lease_seconds=LEASE_SECONDS, workspace_concurrency=1)
    with silent_proxy(shop._server.url.removeprefix("unix://")) as proxy:
        query = url.partition("?")[2]
        cut_off = f"fairqueue://127.0.0.1:{proxy.port}/0?{query}"
        shop.worker("-P", "prefork", "-c", "3", url=cut_off).ready()
        other = shop.worker("-P", "prefork", "-c", "3", "-Q", "nothing", url=url).ready()
        publisher = shop.publisher(url)
        control = shop.control(publisher, other)
        for tenant, deaf in (("ada", False), ("bob", True)):
            kwargs = {"seconds": 7.0, "deaf": deaf}
            publisher.send("breathe_late", 1, kwargs=kwargs, tenant=tenant)
        publisher.send("work", 1, kwargs={"seconds": 7.0}, tenant="eve")
        shop.ledger.wait("start", 3)
        time.sleep(1.5)  # the early ack is on its way
        proxy.silent = True
        silent = time.monotonic()
        control.add_consumer("celery", destination=[other.name])
        shop.ledger.wait("start", 2, tenant="ada")
        shop.ledger.wait("start", 2, tenant="bob")
        shop.ledger.wait("end", 1, tenant="eve")
        proxy.silent = False
        shop.ledger.wait("end", 1, tenant="ada")
        shop.ledger.wait("end", 1, tenant="bob")

    for tenant in ("ada", "bob"):
        first, second = shop.ledger.lines("start", tenant=tenant)
        last_sign = shop.ledger.lines("alive", tenant=tenant, pid=first["pid"])[-1]
        assert last_sign["at"] < second["at"], "it was stopped before it ran again"
        assert second["at"] - silent < 2 * LEASE_SECONDS + 1
        assert shop.ledger.lines("end", tenant=tenant, pid=first["pid"]) == []
    assert len(shop.ledger.lines("start", tenant="eve")) == 1
