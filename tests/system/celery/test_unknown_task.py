"""A worker of an older release gets jobs of a newer one."""

from __future__ import annotations

import time

from tests.metrics.scraping import fetch
from tests.nodes import free_port
from tests.system.celery.conftest import Shop
from tests.system.ledger import wait_for

JOBS = 10


def old_and_url(shop: Shop, **settings: object) -> str:
    """Start a worker of the older release; return the URL of both."""
    url = shop.url(**settings)
    shop.app_name = "shop"  # it does not know curious.whoami
    shop.worker("-c", "1", url=url).ready()
    return url


def test_a_task_that_only_a_newer_worker_knows_waits_for_it(shop: Shop) -> None:
    """The old worker gives the job back, uncounted, and goes on; the new one runs it once."""
    url = old_and_url(shop)
    [old] = shop.workers
    publisher = shop.publisher(url)
    publisher.send("curious.whoami", workspace="acme")
    publisher.send("work", 1, workspace="acme")
    wait_for(lambda: "does not know task 'curious.whoami'" in old.log.read_text())
    shop.ledger.wait("end", 1)
    assert (shop.row("acme").scheduled, shop.row("acme").dead) == (1, 0)

    shop.app_name = "curious"
    shop.worker("-c", "1", url=url).ready()
    old.stop()
    shop.ledger.wait("whoami", 1, seconds=60)

    assert [row["deliveries"] for row in shop.ledger.lines("whoami")] == [1]
    wait_for(lambda: shop.row("acme").running == 0)
    assert (shop.row("acme").scheduled, shop.row("acme").dead) == (0, 0)


def _declined(port: int) -> float:
    """How many jobs the old worker has given back."""
    return fetch(f"http://127.0.0.1:{port}/metrics")[
        "fairqueue_leases_ended_total", "declined", "celery"
    ]


def test_the_newer_of_two_workers_gets_it_soon(shop: Shop) -> None:
    """Beside an old worker an idle new one takes what the old one declined.

    The old one prefers jobs that it has not declined yet.
    """
    port = free_port()
    url = old_and_url(shop, metrics_bind=f"127.0.0.1:{port}")
    publisher = shop.publisher(url)
    for n in range(JOBS):  # with intervals: while one worker is busy the other takes the next one
        publisher.send("curious.whoami", workspace=f"workspace-{n}")
        time.sleep(0.4)
    shop.app_name = "curious"
    shop.worker("-c", "1", url=url).ready()
    before = _declined(port)

    shop.ledger.wait("whoami", JOBS, seconds=60)

    assert _declined(port) - before <= JOBS // 3
    assert len(shop.ledger.lines("whoami")) == JOBS
    publisher.send("work", 1, workspace="acme")
    shop.ledger.wait("end", 1)


def test_a_task_that_no_worker_knows_becomes_a_dead_letter(shop: Shop) -> None:
    """After ``unknown_task_returns`` times it is a dead letter with its reason."""
    url = old_and_url(shop, unknown_task_returns=1)
    publisher = shop.publisher(url)
    publisher.send("curious.whoami", workspace="acme")

    wait_for(lambda: shop.row("acme").dead == 1)

    with shop.core() as core:
        assert [letter.reason for letter in core.dead.page("acme")] == ["unknown_task"]
    publisher.send("work", 1, workspace="acme")
    shop.ledger.wait("end", 1)
