"""A replica takes over behind the broker's name: workers and producers go on by themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import kombu
import pytest
import redis
from kombu.exceptions import OperationalError

from tests.nodes import MovedName, moved_name

POOLS = ["prefork", "solo", "threads", "gevent", "eventlet"]
IMPATIENT = {"max_retries": 0}


@pytest.fixture
def name() -> Iterator[MovedName]:
    with moved_name() as name:
        yield name


def _url(shop: Any, name: MovedName, **settings: object) -> str:
    query = {"namespace": shop.namespace, "workspace_from": "kwarg:tenant_id", **settings}
    return f"fairqueue://127.0.0.1:{name.port}/0?{urlencode(query)}"


def _send_until_accepted(publisher: Any, n: int) -> set[type[Exception]]:
    """Publish it, as a web server would that tries again; return what it was told before."""
    told = set()
    for _ in range(60):
        try:
            publisher.send("work_late", n, workspace="ada", retry_policy=IMPATIENT)
        except Exception as error:  # noqa: BLE001 - whatever a user would see
            told.add(type(error))
            time.sleep(0.2)
        else:
            return told
    pytest.fail(f"never accepted: {told}")


def _ask_for_control(shop: Any, publisher: Any, worker: Any) -> None:
    """An older kombu does not repeat a broadcast: each of its connections is refused once."""
    for _ in range(0 if kombu.VERSION >= (5, 4) else 2):
        with suppress(redis.ConnectionError):
            shop.control(publisher, worker)
    shop.control(publisher, worker)


@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_follows_its_name_to_the_new_primary(
    shop: Any, name: MovedName, pool: str
) -> None:
    """Demoted while a job runs and the worker waits; the name moves a while later."""
    url = _url(shop, name, lease_seconds=6)
    shop.config = {"result_backend": url}
    worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
    publisher = shop.publisher(url, backend=url)
    shop.control(publisher, worker)
    running = publisher.send("work_late", 1, kwargs={"seconds": 2.0}, workspace="ada")
    shop.ledger.wait("start", 1)

    name.promote()
    time.sleep(1.0)
    name.move()
    told = _send_until_accepted(publisher, 2)
    shop.ledger.wait("end", 2)

    assert told <= {OperationalError}
    assert running.get(timeout=30) == 1
    assert len(shop.ledger.lines("start")) == 2
    assert worker.process.poll() is None
    _ask_for_control(shop, publisher, worker)
    assert "Unrecoverable" not in Path(worker.log).read_text()
