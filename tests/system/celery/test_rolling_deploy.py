"""A rolling deploy: old and new producers and workers on one Redis.

Stock kombu's keys have no namespace, so each test has its own server.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from typing import Any

from click.testing import CliRunner

from fairqueue.cli import main
from fairqueue.testing import EmbeddedServer
from tests.system.celery.conftest import Shop
from tests.system.ledger import wait_for


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


def test_a_rolling_deploy_runs_each_job_once(own_shop: Shop, own_server: EmbeddedServer) -> None:
    """Every job runs once, whichever producer sent it and whichever workers ran then.

    But for what a stock worker repeats of itself as it stops.
    """
    old_url, new_url = stock_url(own_server), own_shop.url(workspace_concurrency=2)
    old = own_shop.worker("-c", "2", url=old_url).ready()
    senders = [
        Sending(own_shop.publisher(old_url), 0, "acme"),
        Sending(own_shop.publisher(new_url), 1_000_000, "zeta"),
    ]
    for sender in senders:
        sender.start()
    wait_for(lambda: len(runs(own_shop)) > 20)
    old_pids = {row["pid"] for row in own_shop.ledger.lines("end")}
    own_shop.worker("-c", "2", url=new_url).ready()
    so_far = len(runs(own_shop))
    wait_for(lambda: len(runs(own_shop)) > so_far + 50)
    stopping = time.monotonic()
    old.stop()  # what it holds goes back to the old lists, and from there to the new worker
    so_far = len(runs(own_shop))
    wait_for(lambda: len(runs(own_shop)) > so_far + 50)
    for sender in senders:
        sender.stop()
    expected = {n for sender in senders for n in sender.sent}
    wait_for(lambda: set(runs(own_shop)) == expected, seconds=60)

    twice = {n for n, count in runs(own_shop).items() if count != 1}
    assert twice <= acks_that_stock_may_lose(own_shop, old_pids, stopping)
    with own_server.client() as client:
        assert client.hlen("unacked") == 0
        assert not client.exists("celery")


def test_jobs_of_a_killed_old_worker_come_back_after_the_visibility_timeout(
    own_shop: Shop, own_server: EmbeddedServer
) -> None:
    """Even if no old worker is left to put them back."""
    own_shop.config = {"broker_transport_options": {"visibility_timeout": 2}}
    publisher = own_shop.publisher(stock_url(own_server))
    old = own_shop.worker("-c", "1", url=stock_url(own_server)).ready()
    publisher.send("work_late", 1, workspace="acme", kwargs={"seconds": 600})
    own_shop.ledger.wait("start", 1)
    old.kill()
    own_shop.worker("-c", "1", url=own_shop.url()).ready()

    own_shop.ledger.wait("start", 2)
    assert own_shop.running("acme") == 1


def migrated(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, ["migrate", "celery", "--json", *arguments])
    return result.exit_code, json.loads(result.stdout)


def test_live_old_workers_keep_what_they_hold(own_shop: Shop, own_server: EmbeddedServer) -> None:
    """A migration takes waiting jobs; those a live worker holds are counted, and taken later."""
    publisher = own_shop.publisher(stock_url(own_server))
    old = own_shop.worker(
        "-c", "1", "--prefetch-multiplier", "1", url=stock_url(own_server)
    ).ready()
    publisher.send("work_late", 1, workspace="acme", kwargs={"seconds": 2})
    own_shop.ledger.wait("start", 1)
    publisher.send("work", 2, workspace="acme")
    code, found = migrated("--from", own_server.url, "--to", own_shop.url())
    assert (code, found["moved"], found["left_held"]) == (1, 1, 1)
    assert found["holders"] == [f"w0@{own_shop.namespace}"]

    own_shop.worker("-c", "1", url=own_shop.url()).ready()
    old.stop()
    code, found = migrated("--from", own_server.url, "--to", own_shop.url())
    assert (code, found["moved"], found["left_held"], found["holders"]) == (0, 0, 0, [])
    own_shop.ledger.wait("end", 2)
    assert runs(own_shop) == {1: 1, 2: 1}


def test_the_way_back_runs_on_stock_workers(own_shop: Shop, own_server: EmbeddedServer) -> None:
    """Moved back, waiting and scheduled jobs run once each; new workers leave them alone."""
    new = own_shop.worker("-c", "1", url=own_shop.url(workspace_concurrency=1)).ready()
    publisher = own_shop.publisher(own_shop.url())
    publisher.send("work_late", 0, workspace="acme", kwargs={"seconds": 3})
    own_shop.ledger.wait("start", 1)
    for n in range(1, 6):
        publisher.send("work", n, workspace="acme", countdown=1.5 if n == 5 else None)

    code, found = migrated("--back", "--from", own_shop.url(), "--to", own_server.url)
    assert (code, found["moved"], found["scheduled"], found["running"]) == (1, 5, 1, 1)
    own_shop.worker("-c", "1", url=stock_url(own_server)).ready()
    own_shop.ledger.wait("end", 6)

    assert runs(own_shop) == dict.fromkeys(range(6), 1)
    wait_for(lambda: own_shop.running("acme") == 0)
    assert migrated("--back", "--from", own_shop.url(), "--to", own_server.url)[0] == 0
    new.stop()
