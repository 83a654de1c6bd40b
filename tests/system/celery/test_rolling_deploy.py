"""A rolling deploy: old and new producers and workers on one Redis."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairqueue.cli import main
from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.system.celery.conftest import Shop
from tests.system.ledger import wait_for


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """Stock kombu's keys have no namespace, so each test has its own server."""
    with embedded_redis() as server:
        yield server


@pytest.fixture
def shop(server: EmbeddedServer, namespace: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(server, namespace, tmp_path)
    yield shop
    shop.close()


def stock_url(server: EmbeddedServer) -> str:
    return server.url.replace("unix://", "redis+socket://")


class Sending(threading.Thread):
    """Sends numbered jobs at short intervals until it is stopped."""

    def __init__(self, publisher: Any, first: int, workspace: str) -> None:
        super().__init__()
        self._publisher, self._first, self._tenant = publisher, first, workspace
        self.sent: list[int] = []
        self._stopped = threading.Event()

    def run(self) -> None:
        for n in itertools.count(self._first):
            options = {"priority": n % 10, "countdown": 1.0 if n % 7 == 0 else None}
            self._publisher.send("work_late", n, workspace=self._tenant, **options)
            self.sent.append(n)
            if self._stopped.wait(0.03):
                return

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def runs(shop: Shop) -> Counter[int]:
    return Counter(row["n"] for row in shop.ledger.lines("end"))


def acks_that_stock_may_lose(shop: Shop, pids: set[int], stopping: float) -> set[int]:
    """Jobs that a stock worker ran when it began to stop: it may put them back anyway (#3802)."""
    ends = shop.ledger.lines("end")
    return {row["n"] for row in ends if row["pid"] in pids and row["at"] > stopping - 0.5}


def test_a_rolling_deploy_runs_each_job_once(shop: Shop, server: EmbeddedServer) -> None:
    """Every job runs once, whichever producer sent it and whichever workers ran then.

    But for what a stock worker repeats of itself as it stops.
    """
    old_url, new_url = stock_url(server), shop.url(workspace_concurrency=2)
    old = shop.worker("-c", "2", url=old_url).ready()
    senders = [
        Sending(shop.publisher(old_url), 0, "acme"),
        Sending(shop.publisher(new_url), 1_000_000, "zeta"),
    ]
    for sender in senders:
        sender.start()
    wait_for(lambda: len(runs(shop)) > 20)
    old_pids = {row["pid"] for row in shop.ledger.lines("end")}
    shop.worker("-c", "2", url=new_url).ready()
    so_far = len(runs(shop))
    wait_for(lambda: len(runs(shop)) > so_far + 50)
    stopping = time.monotonic()
    old.stop()  # what it holds goes back to the old lists, and from there to the new worker
    so_far = len(runs(shop))
    wait_for(lambda: len(runs(shop)) > so_far + 50)
    for sender in senders:
        sender.stop()
    expected = {n for sender in senders for n in sender.sent}
    wait_for(lambda: set(runs(shop)) == expected, seconds=60)

    twice = {n for n, count in runs(shop).items() if count != 1}
    assert twice <= acks_that_stock_may_lose(shop, old_pids, stopping)
    with shop.core() as core:
        taken = core.jobs.imported()
    assert set(taken) == {"read"}
    with server.client() as client:
        assert client.hlen("unacked") == 0
        assert not client.exists("celery")


def test_adopted_jobs_are_fair_and_limited(shop: Shop, server: EmbeddedServer) -> None:
    """Jobs of an old producer are subject to the limits of their workspace."""
    publisher = shop.publisher(stock_url(server))
    for n in range(6):
        publisher.send("work", n, workspace="acme", kwargs={"seconds": 0.3})
    publisher.send("work", 99, workspace="zeta")
    shop.worker("-c", "4", url=shop.url(workspace_concurrency=1)).ready()
    shop.ledger.wait("end", 7)

    assert shop.ledger.most_at_once(workspace="acme") == 1
    starts = sorted(shop.ledger.lines("start"), key=lambda row: row["at"])
    assert 99 in [row["n"] for row in starts[:2]]


def test_jobs_of_a_killed_old_worker_come_back_after_the_visibility_timeout(
    shop: Shop, server: EmbeddedServer
) -> None:
    """Even if no old worker is left to put them back."""
    shop.config = {"broker_transport_options": {"visibility_timeout": 2}}
    publisher = shop.publisher(stock_url(server))
    old = shop.worker("-c", "1", url=stock_url(server)).ready()
    publisher.send("work_late", 1, workspace="acme", kwargs={"seconds": 600})
    shop.ledger.wait("start", 1)
    old.kill()
    shop.worker("-c", "1", url=shop.url()).ready()

    shop.ledger.wait("start", 2)
    assert shop.running("acme") == 1


def migrated(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["migrate", "celery", "--json", *arguments])
    return result.exit_code, json.loads(result.stdout)


def test_live_old_workers_keep_what_they_hold(shop: Shop, server: EmbeddedServer) -> None:
    """A migration takes waiting jobs; those a live worker holds are counted, and taken later."""
    publisher = shop.publisher(stock_url(server))
    old = shop.worker("-c", "1", "--prefetch-multiplier", "1", url=stock_url(server)).ready()
    publisher.send("work_late", 1, workspace="acme", kwargs={"seconds": 2})
    shop.ledger.wait("start", 1)
    publisher.send("work", 2, workspace="acme")
    code, found = migrated("--from", server.url, "--to", shop.url())
    assert (code, found["moved"], found["left_held"]) == (1, 1, 1)
    assert found["holders"] == [f"w0@{shop.namespace}"]

    shop.worker("-c", "1", url=shop.url()).ready()
    old.stop()
    code, found = migrated("--from", server.url, "--to", shop.url())
    assert (code, found["moved"], found["left_held"], found["holders"]) == (0, 0, 0, [])
    shop.ledger.wait("end", 2)
    assert runs(shop) == {1: 1, 2: 1}


def test_the_way_back_runs_on_stock_workers(shop: Shop, server: EmbeddedServer) -> None:
    """Moved back, waiting and scheduled jobs run once each; new workers leave them alone."""
    new = shop.worker("-c", "1", url=shop.url(workspace_concurrency=1)).ready()
    publisher = shop.publisher(shop.url())
    publisher.send("work_late", 0, workspace="acme", kwargs={"seconds": 3})
    shop.ledger.wait("start", 1)
    for n in range(1, 6):
        publisher.send("work", n, workspace="acme", countdown=1.5 if n == 5 else None)

    code, found = migrated("--back", "--from", shop.url(), "--to", server.url)
    assert (code, found["moved"], found["scheduled"], found["running"]) == (1, 5, 1, 1)
    shop.worker("-c", "1", url=stock_url(server)).ready()
    shop.ledger.wait("end", 6)

    assert runs(shop) == dict.fromkeys(range(6), 1)
    wait_for(lambda: shop.running("acme") == 0)
    assert migrated("--back", "--from", shop.url(), "--to", server.url)[0] == 0
    new.stop()
