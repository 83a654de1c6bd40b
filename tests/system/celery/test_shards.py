"""One app over two servers: each has a shard, and the workspaces that live there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kombu.exceptions import OperationalError

from tests.nodes import Spread
from tests.resharded import judge, play
from tests.system.celery.conftest import Shop
from tests.system.ledger import wait_for

JOBS_EACH = 4


class SpreadShop(Shop):
    """A shop whose workspaces are spread over two servers."""

    def __init__(self, servers: Spread, namespace: str, folder: Path) -> None:
        super().__init__(servers, namespace, folder)  # type: ignore[arg-type]  # it has a URL
        self.servers = servers

    def url(self, **settings: object) -> str:
        return self.at(f"fairqueue://{self.servers.hosts}/0", **settings)

    @property
    def workspaces(self) -> list[str]:
        """Four of each server, in turn."""
        of_each = zip(*(self.servers.workspaces(n, 4) for n in range(2)), strict=True)
        return [workspace for some in of_each for workspace in some]

    def running(self, workspace: str) -> int:
        with self.core() as core:
            rows = core.views.stats().workspaces
        return next((row.running for row in rows if row.workspace == workspace), 0)

    def ran_once(self, *numbers: int) -> bool:
        """Whether each workspace has run each of these jobs once, and nothing else."""
        counted = Counter((row["workspace"], row["n"]) for row in self.ledger.lines("start"))
        return counted == Counter((name, n) for name in self.workspaces for n in numbers)


@pytest.fixture
def wide_shop(servers: Spread, namespace: str, tmp_path: Path) -> Iterator[SpreadShop]:
    shop = SpreadShop(servers, namespace, tmp_path)
    yield shop
    shop.close()


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_an_unchanged_app_runs_on_both_servers(wide_shop: SpreadShop, pool: str) -> None:
    """Every job runs once, and a workspace has its limit wherever it lives; canvas and results."""
    publisher = wide_shop.open(pool, 8, results=True, workspace_concurrency=2, lease_seconds=30)
    [worker] = wide_shop.workers
    control = wide_shop.control(publisher, worker)

    wide_shop.play(publisher, wide_shop.workspaces, limit=2, jobs=JOBS_EACH)

    active = control.inspect([worker.name], timeout=60, limit=1).active
    wait_for(lambda: active() == {worker.name: []})
    assert worker.stop() == 0


@pytest.mark.parametrize("shard", [0, 1])
def test_a_job_of_any_server_is_revoked(wide_shop: SpreadShop, shard: int) -> None:
    """A running one is terminated, and a waiting one is taken out, on whichever server it is."""
    publisher = wide_shop.open(results=True, workspace_concurrency=1, lease_seconds=30)
    [worker] = wide_shop.workers
    control = wide_shop.control(publisher, worker)
    [workspace] = wide_shop.servers.workspaces(shard, 1)
    long = {"kwargs": {"seconds": 60}, "workspace": workspace}
    running, waiting, last = [publisher.send("work", n, **long) for n in range(3)]
    wide_shop.ledger.wait("start", 1, n=0)

    control.revoke(waiting.id)
    wait_for(lambda: waiting.state == "REVOKED")
    control.revoke(running.id, terminate=True)
    wait_for(lambda: running.state == "REVOKED")

    wide_shop.ledger.wait("start", 1, n=2)
    assert not wide_shop.ledger.lines("start", n=1)
    control.revoke(last.id, terminate=True)
    wait_for(lambda: wide_shop.running(workspace) == 0)


def test_remote_control_goes_on_without_the_second_server(wide_shop: SpreadShop) -> None:
    """Its queues are on the first; no other server is needed to know what they are."""
    publisher = wide_shop.open("threads", 1, lease_seconds=30)
    [worker] = wide_shop.workers
    control = wide_shop.control(publisher, worker)
    wide_shop.servers.nodes[1].kill()
    active = control.inspect([worker.name], timeout=60, limit=1).active
    assert active() == {worker.name: []}


class Outage:
    """Jobs of both servers under way in one worker, before one of the servers dies."""

    def __init__(self, shop: SpreadShop, pool: str, killed: int, lease_seconds: int) -> None:
        url = shop.url(workspace_concurrency=2, lease_seconds=lease_seconds)
        self.worker = shop.worker("-P", pool, "-c", "8", url=url).ready()
        self.publisher = shop.publisher(url)
        shop.control(self.publisher, self.worker)
        self.node = shop.servers.nodes[killed]
        self.away, self.kept = (shop.servers.workspaces(n, 4) for n in (killed, 1 - killed))
        for n in range(4):
            for name in shop.workspaces:
                self.send(n, name, seconds=0.3)
        for name in self.away:
            shop.ledger.wait("start", 1, workspace=name)

    def send(self, n: int, workspace: str, *, seconds: float = 0.0) -> None:
        kwargs, once = {"seconds": seconds}, {"max_retries": 0}
        self.publisher.send("work", n, kwargs=kwargs, workspace=workspace, retry_policy=once)

    def refuses(self, workspace: str) -> bool:
        """Whether a publish fails at once."""
        try:
            self.send(-1, workspace)
        except OperationalError:
            return True
        return False


@pytest.mark.parametrize("killed", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_a_server_dies_and_comes_back(wide_shop: SpreadShop, pool: str, killed: int) -> None:
    """Nothing is lost, and nothing runs twice: jobs that end meanwhile are finished later.

    Producers of the other server go on. So does the worker, but for the first, which has kombu's
    own queues: it waits for that.
    """
    outage = Outage(wide_shop, pool, killed=killed, lease_seconds=60)
    outage.node.kill()
    assert all(outage.refuses(name) for name in outage.away)
    for name in outage.kept:
        outage.send(4, name)
    if killed:
        for name in outage.kept:
            wide_shop.ledger.wait("end", 5, workspace=name)
        assert len(wide_shop.ledger.lines("start")) < 40, "all jobs had started before the kill"
    else:
        wait_for(lambda: "Redis is away, looking for it" in outage.worker.log.read_text())
    outage.node.start()
    for name in outage.away:
        wide_shop.ledger.wait("end", 4, workspace=name)
        outage.send(4, name)
    for name in wide_shop.workspaces:
        wide_shop.ledger.wait("end", 5, workspace=name)
    assert wide_shop.ran_once(*range(5))
    wait_for(lambda: not any(map(wide_shop.running, wide_shop.workspaces)))
    assert outage.worker.stop() == 0


def test_an_outage_longer_than_a_lease(wide_shop: SpreadShop) -> None:
    """A worker also goes on when it is time to look whether a server has lost its limits."""
    outage = Outage(wide_shop, "threads", killed=1, lease_seconds=3)
    outage.node.kill()
    begun, sent = time.monotonic(), 3
    while time.monotonic() - begun < 4.0:
        sent += 1
        outage.send(sent, outage.kept[0])
        wide_shop.ledger.wait("end", sent + 1, workspace=outage.kept[0])
    outage.node.start()
    for name in outage.away:
        for n in range(4):
            wide_shop.ledger.wait("end", 1, workspace=name, n=n)


@pytest.mark.timeout(600)  # each change waits for half a minute, and a busy machine for more
def test_the_number_of_shards_changes_under_load(wide_shop: SpreadShop) -> None:
    """A worker and a producer go on, from two shards to four and back, while the command is killed.

    Nothing is lost, nothing runs twice, and no workspace is above its limit.
    """
    url = wide_shop.url(workspace_concurrency=1, lease_seconds=60)
    worker = wide_shop.worker("-P", "prefork", "-c", "4", url=url).ready()
    publisher = wide_shop.publisher(url)

    def is_accepted(n: int, name: str) -> bool:
        try:  # kombu's retries do not wait while the connection is sound
            publisher.send("work", n, workspace=name, retry_policy={"max_retries": 0})
        except OperationalError:
            return False
        return True

    def publish(n: int, name: str) -> None:
        wait_for(partial(is_accepted, n, name))

    sent = play(wide_shop.servers.url, wide_shop.namespace, publish, 2, 4, 2)
    judge(wide_shop.ledger, sent)
    assert worker.stop() == 0
