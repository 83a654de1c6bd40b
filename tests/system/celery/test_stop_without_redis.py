"""A worker that is told to stop while Redis is away exits, and leaves its leases to expire."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from tests.redis.proxy import proxy_before
from tests.system.ledger import wait_for

GRACE_SECONDS = 30.0
"""What Kubernetes gives a pod."""


@pytest.mark.parametrize("signalled", ["SIGTERM", "SIGQUIT"])
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_it_exits_within_its_grace(own_shop: Any, pool: str, signalled: str) -> None:
    """One job has ended, and its end could not be reported; the log says what becomes of it."""
    shop = own_shop
    worker = shop.worker("-P", pool, "-c", "2", url=shop.url(lease_seconds=20)).ready()
    shop.publisher().send("work_late", 1, workspace="ada", kwargs={"seconds": 1.5})
    shop.ledger.wait("start", 1)
    shop._server.kill()
    shop.ledger.wait("end", 1)
    wait_for(lambda: "Cannot connect" in worker.log.read_text() or "rror" in worker.log.read_text())
    time.sleep(1.0)
    os.kill(worker.pid, getattr(signal, signalled))
    wait_for(lambda: worker.process.poll() is not None, seconds=GRACE_SECONDS)

    assert "leases will expire" in worker.log.read_text()


@pytest.mark.parametrize("signalled", ["SIGTERM", "SIGQUIT"])
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet", "solo"])
def test_it_exits_though_redis_is_silent(shop: Any, pool: str, signalled: str) -> None:
    """No connection is refused, and none is answered."""
    with proxy_before(shop._server.url) as proxy:
        query = shop.url(lease_seconds=20).partition("?")[2]
        url = f"fairqueue://127.0.0.1:{proxy.port}/0?{query}"
        worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
        shop.publisher().send("work_late", 1, workspace="ada", kwargs={"seconds": 1.5})
        shop.ledger.wait("start", 1)
        proxy.silent = True
        shop.ledger.wait("end", 1)
        time.sleep(1.0)
        os.kill(worker.pid, getattr(signal, signalled))
        wait_for(lambda: worker.process.poll() is not None, seconds=GRACE_SECONDS)

    assert "leases will expire" in worker.log.read_text()
