"""Tasks, and a consumer of the user's own, that gather messages before they are acked."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from kombu import Queue

from tests.system.ledger import wait_for


def start(shop: Any, pool: str = "prefork", *, processes: int = 2, **environment: str) -> Any:
    shop.app_name = "batching"
    return shop.worker("-P", pool, "-c", str(processes), url=shop.url(), **environment).ready()


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
@pytest.mark.parametrize("task", ["index", "index_late"])
def test_batches_are_full(shop: Any, pool: str, task: str) -> None:
    """With two processes, twenty jobs run in a call; other tasks run meanwhile, each job once.

    A step would belong to none of the twenty: it is refused.
    """
    publisher = shop.publisher()
    for n in range(100):
        publisher.send(task, n, workspace=f"w{n % 5}")
    for n in range(10):
        publisher.send("work", n, workspace="ada")

    start(shop, pool)
    shop.ledger.wait("end", 100, workspace="batch")
    shop.ledger.wait("end", 10, workspace="ada")

    assert [row["n"] for row in shop.ledger.lines("batch")] == [20] * 5
    assert ["outside a job" in row["said"] for row in shop.ledger.lines("refused")] == [True] * 5
    assert not shop.ledger.lines("step")
    assert sorted(row["n"] for row in shop.ledger.lines("end", workspace="batch")) == [*range(100)]
    wait_for(lambda: not any(shop.running(f"w{n}") for n in range(5)))


@pytest.mark.parametrize("task", ["index", "index_late"])
def test_a_batch_holds_its_slots_until_it_ends(shop: Any, tmp_path: Path, task: str) -> None:
    """Acked early or late, its jobs are running until then; they share its worker-seconds."""
    publisher, latch = shop.publisher(), tmp_path / "latch"
    for n in range(20):
        publisher.send(task, n, workspace="ada")
    start(shop, processes=1, BATCH_LATCH=str(latch))
    shop.ledger.wait("start", 20)
    time.sleep(0.5)  # an early ack has arrived by then

    assert shop.running("ada") == 20
    latch.touch()
    shop.ledger.wait("end", 20)
    wait_for(lambda: not shop.running("ada"))


def test_sighup_gives_back_what_was_gathered(shop: Any) -> None:
    """At once: Celery replaces the process without the handlers of the interpreter's exit."""
    publisher = shop.publisher()
    for n in range(5):
        publisher.send("index_late", n, workspace="ada")
    worker = start(shop)
    wait_for(lambda: shop.running("ada") == 5)
    worker.process.send_signal(signal.SIGHUP)
    worker.process.wait()  # "python -m celery" cannot be started again as Celery tries to
    assert "Restarting celery worker" in worker.log.read_text()
    assert (shop.row("ada").running, shop.row("ada").waiting) == (0, 5)
    with shop.core() as core:
        assert not any(row.is_alive for row in core.views.workers())


def test_a_batch_whose_process_dies_runs_again(shop: Any) -> None:
    """Its jobs go back, if they are acked late."""
    publisher = shop.publisher()
    for n in range(-1, 19):
        publisher.send("index_late", n, workspace="ada")
    start(shop)

    shop.ledger.wait("end", 20)

    assert len(shop.ledger.lines("start")) == 40


POOLS = ("prefork", "threads", "gevent")


def audit(publisher: Any, numbers: Any) -> None:
    with publisher.app.connection_for_write() as connection:
        Queue("audit")(connection.default_channel).declare()
        for n in numbers:
            connection.Producer().publish(n, routing_key="audit")


def start_audit(shop: Any, pool: str, *, prefetch: int, batch: int, **settings: Any) -> Any:
    shop.app_name = "auditing"
    environment = {"AUDIT_PREFETCH": str(prefetch), "AUDIT_BATCH": str(batch)}
    url = shop.url(**settings)
    return shop.worker("-P", pool, "-c", "2", url=url, **environment).ready()


@pytest.mark.parametrize("pool", POOLS)
def test_a_consumer_gathers_more_than_the_pool_has_processes(shop: Any, pool: str) -> None:
    """It acks in tens beside two processes: all its messages and all tasks are done."""
    publisher = shop.publisher()
    audit(publisher, range(30))
    for n in range(30):
        publisher.send("work", n, workspace="ada")

    start_audit(shop, pool, prefetch=0, batch=10)

    shop.ledger.wait("audited", 30)
    shop.ledger.wait("end", 30)


def test_the_prefetch_count_of_a_consumer_is_its_own(shop: Any) -> None:
    """It holds three messages at most, and the pool runs its tasks; a stop gives them back."""
    publisher = shop.publisher()
    audit(publisher, range(9))
    worker = start_audit(shop, "prefork", prefetch=3, batch=100)
    shop.ledger.wait("gathered", 3)
    for n in range(4):
        publisher.send("work", n, workspace="ada")
    shop.ledger.wait("end", 4)

    assert len(shop.ledger.lines("gathered")) == 3
    worker.stop()

    with shop.core() as core:
        assert core.depth("audit") == 9
    assert not shop.running("default")


def test_what_a_consumer_gathers_stays_its_own(shop: Any) -> None:
    """Its leases are renewed for as long as it waits for the rest of a batch."""
    publisher = shop.publisher()
    audit(publisher, range(9))
    start_audit(shop, "prefork", prefetch=0, batch=10, lease_seconds=2)
    shop.ledger.wait("gathered", 9)
    publisher.send("work", 1, workspace="ada", kwargs={"seconds": 3})
    shop.ledger.wait("end", 1)
    audit(publisher, [9])

    shop.ledger.wait("audited", 10)

    assert len(shop.ledger.lines("gathered")) == 10
