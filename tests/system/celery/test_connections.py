"""Redis goes away and comes back; workers stop warm and cold."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from fairqueue.testing import EmbeddedServer
from tests.redis.proxy import kill_clients
from tests.system.ledger import wait_for


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_killed_connections_run_nothing_twice(
    own_shop: Any, own_server: EmbeddedServer, pool: str
) -> None:
    """All connections are killed while late-acked tasks run: each runs once, the worker goes on."""
    publisher = own_shop.open(pool, lease_seconds=6)
    for n in range(6):
        publisher.send("work_late", n, kwargs={"seconds": 0.7}, workspace="ada")
    own_shop.ledger.wait("start", 2)

    kill_clients(own_server)
    own_shop.ledger.wait("end", 6)
    publisher.send("work_late", 6, workspace="ada")
    own_shop.ledger.wait("end", 7)

    assert len(own_shop.ledger.lines("start")) == 7


def test_a_worker_that_is_refused_says_why_in_a_sentence(
    own_shop: Any, own_server: EmbeddedServer
) -> None:
    """The traceback would be of Celery's frames and ours: the operator has a setting to change."""
    own_server.client().config_set("maxmemory-policy", "allkeys-lru")
    worker = own_shop.worker("-P", "threads", url=own_shop.url())
    wait_for(lambda: worker.process.poll() is not None)
    assert worker.process.poll() == 1
    log = worker.log.read_text()
    assert "Unrecoverable error: this Redis has maxmemory-policy 'allkeys-lru' and would" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("pool", ["prefork", "gevent", "eventlet"])
def test_warm_stop_finishes_running_jobs_and_gives_the_rest_back(shop: Any, pool: str) -> None:
    """SIGTERM: what runs ends and is acked, and the rest waits; no lease is held.

    In a green pool Celery sees the signal only between two waits of its loop, for an event or a
    job, and begins none after it.
    """
    publisher = shop.open(pool, 4)
    for n in range(40):
        publisher.send("work_late", n, kwargs={"seconds": 1.5}, workspace="ada")
    shop.ledger.wait("start", 4)

    assert shop.workers[0].stop() == 0

    ended = len(shop.ledger.lines("end"))
    assert ended == len(shop.ledger.lines("start"))
    assert ended == 4 or pool == "prefork"
    assert (shop.running("ada"), shop.row("ada").waiting) == (0, 40 - ended)


def test_cold_stop_gives_late_acked_jobs_back_uncounted(shop: Any) -> None:
    """SIGQUIT: a late-acked task is aborted and runs again elsewhere as its first delivery."""
    publisher = shop.open("prefork", 1, max_deliveries=1, lease_seconds=300)
    [worker] = shop.workers
    publisher.send("work_late", 1, kwargs={"seconds": 60}, workspace="ada")
    shop.ledger.wait("start", 1)
    inspect = shop.control(publisher).inspect(timeout=60, limit=1)
    wait_for(lambda: inspect.active()[worker.name])  # what Celery has not heard of it waits for

    worker.process.send_signal(signal.SIGQUIT)
    worker.process.wait(60)
    shop.open("prefork", 1, max_deliveries=1, lease_seconds=300)
    shop.ledger.wait("start", 2)

    assert not shop.ledger.lines("end")


def test_cold_stop_may_come_while_a_job_is_written(shop: Any) -> None:
    """SIGQUIT: Celery stops the pool inside the handler, which waited for the rest of the job."""
    shop.app_name = "struck"
    shop.open("prefork", 1).send("work", 1, workspace="ada")

    shop.workers[0].process.wait(30)

    assert shop.running("ada") == 0


def test_solo_reports_its_endings(shop: Any) -> None:
    """The solo pool blocks its loop; its endings reach the store nevertheless."""
    publisher = shop.open("solo", 1, workspace_concurrency=1)
    publisher.send("work", 1, workspace="ada")
    publisher.send("work", 2, kwargs={"seconds": 2}, workspace="bea")
    shop.ledger.wait("start", 1, n=2)
    time.sleep(0.5)

    assert shop.running("ada") == 0
    shop.ledger.wait("end", 2)


def test_solo_gives_back_what_it_claimed_ahead(shop: Any) -> None:
    """Short jobs are claimed ahead; while a long one keeps the loop, those behind it go back."""
    url = shop.url()
    publisher = shop.publisher(url)
    for n in range(80):
        publisher.send("work_late", n, kwargs={"seconds": 3.0 if n == 60 else 0}, workspace="ada")
    shop.worker("-P", "solo", "-c", "1", url=url)
    shop.ledger.wait("start", 1, n=60)
    wait_for(lambda: shop.running("ada") == 1, seconds=2)
    assert len(shop.ledger.lines("start")) == 61
    shop.ledger.wait("end", 80)


def test_stock_options_and_one_url_for_results(shop: Any) -> None:
    """An app that sets visibility_timeout and other stock options runs unchanged."""
    url = shop.url()
    shop.config = {
        "result_backend": url,
        "broker_transport_options": {
            "visibility_timeout": 43200,
            "priority_steps": list(range(10)),
            "queue_order_strategy": "priority",
            "socket_timeout": 10,
            "socket_keepalive": True,
            "health_check_interval": 20,
            "max_retries": 3,
            "interval_start": 0,
            "retry_policy": {"timeout": 5.0},
            "global_keyprefix": "mine-",
        },
    }
    worker = shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    publisher = shop.publisher(url, backend=url)
    publisher.app.conf.broker_transport_options = shop.config["broker_transport_options"]

    assert publisher.send("work", 5, workspace="ada").get(timeout=60) == 5
    assert "visibility_timeout" in Path(worker.log).read_text()


def test_rpc_results_are_plain(shop: Any) -> None:
    """Results over rpc:// come back and take neither a slot nor capacity."""
    url = shop.url(workspace_concurrency=1, workspace_capacity=1)
    shop.config = {"result_backend": "rpc://"}
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    publisher = shop.publisher(url, backend="rpc://")

    for n in range(5):
        assert publisher.send("work", n, workspace="ada").get(timeout=60) == n
