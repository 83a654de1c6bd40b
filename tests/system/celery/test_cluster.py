"""A Celery app on a Redis Cluster: only its URLs differ."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import redis
from celery import Celery
from kombu.exceptions import OperationalError
from redis.crc import key_slot

from tests.nodes import SLOTS, Cluster, cluster
from tests.system.ledger import wait_for

SHARDS = 8
NAMES = [f"workspace-{n}" for n in range(8)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with cluster() as found:
        yield found


def url_of(nodes: Cluster, shop: Any, **settings: object) -> str:
    return str(shop.at(f"fairqueue+cluster://{nodes.hosts}/0", **settings))


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_an_unchanged_app_runs(shop: Any, nodes: Cluster, pool: str) -> None:
    """Jobs of all nodes within their limits, results, canvas, revokes and remote control."""
    url = url_of(nodes, shop, shards=SHARDS, workspace_concurrency=1)
    publisher = shop.open(pool, 4, url=url, results=True)
    [worker] = shop.workers
    control = shop.control(publisher, worker)

    shop.play(publisher, NAMES, limit=1, jobs=3)

    shop.ledger.forget()
    running, waiting = [
        publisher.send("work", n, kwargs={"seconds": 0.5}, workspace="w") for n in (100, 101)
    ]
    shop.ledger.wait("start", 1, n=100)
    control.revoke(waiting.id)
    wait_for(lambda: waiting.state == "REVOKED")
    assert running.get(timeout=60) == 100
    asked = control.inspect([worker.name], timeout=60, limit=1)
    wait_for(lambda: asked.active() == {worker.name: []})  # its result comes before its end
    assert publisher.app.connection().as_uri() == f"fairqueue+cluster://{nodes.hosts}/0"
    assert worker.stop() == 0


def test_plain_queues_can_be_asked_for(shop: Any, nodes: Cluster) -> None:
    """Kombu's own queues have their keys in one slot, also where kombu forgets the prefix."""
    publisher = shop.publisher(url_of(nodes, shop, shards=SHARDS))
    with publisher.app.connection() as connection:
        buffer = connection.SimpleBuffer("notes", no_ack=True)
        buffer.put({"a": 1})
        assert buffer.qsize() == 1
        assert buffer.get(timeout=10).payload == {"a": 1}
        buffer.close()


@pytest.mark.parametrize("url", ["fairqueues+cluster://u:p@h/0", "fairqueues+sentinel://u:p@h/s"])
def test_results_go_over_tls(url: str) -> None:
    """Celery leaves the first part of the scheme out of the backend's URL."""
    app = Celery("secured", broker="memory://", backend=f"{url}?namespace=n")
    kind = app.backend.client.connection_pool.connection_class
    assert issubclass(kind, redis.SSLConnection)


def test_results_go_over_tls_by_celerys_own_option() -> None:
    """As on ``fairqueue://``."""
    app = Celery("secured", broker="memory://", backend="fairqueue+cluster://u:p@h/0?namespace=n")
    app.conf.redis_backend_use_ssl = {"ssl_cert_reqs": ssl.CERT_NONE}
    try:
        pool = app.backend.client.connection_pool
    except ValueError:  # Celery 5.3 takes it for rediss:// alone, also on one Redis
        return
    assert issubclass(pool.connection_class, redis.SSLConnection)
    assert pool.connection_kwargs["ssl_cert_reqs"] == ssl.CERT_NONE


def apart(namespace: str) -> str:
    """A namespace whose first shard is not where kombu's own keys are."""

    def primary(tag: str) -> int:
        return int(key_slot(f"{{{tag}}}".encode())) * Cluster.PRIMARIES // SLOTS

    names = (f"{namespace}-{n}" for n in itertools.count())
    return next(name for name in names if primary(name) != primary(f"{name}:0"))


def test_a_primary_dies(shop: Any) -> None:
    """Its replica takes over, whichever node it is, and worker and producer go on."""
    with cluster(replicas=1) as nodes:
        shop.namespace = apart(shop.namespace)
        url = url_of(nodes, shop, shards=SHARDS, lease_seconds=60)
        publisher = shop.open("threads", 4, url=url)
        [worker] = shop.workers

        def is_sent(n: int, name: str) -> bool:
            try:
                once = {"max_retries": 0}
                publisher.send("work", n, workspace=name, retry_policy=once, task_id=f"{n}-{name}")
            except OperationalError:
                return False
            return True

        def ran(n: int) -> bool:
            return len(shop.ledger.lines("end", n=n)) == len(NAMES)

        for number, dead in enumerate(nodes.primaries):
            replica = nodes.nodes[nodes.PRIMARIES + number]
            assert all(is_sent(number, name) for name in NAMES)
            wait_for(partial(ran, number))
            wait_for(partial(replica.follows, dead))
            dead.kill()
            for name in NAMES:
                wait_for(partial(is_sent, number + 10, name))
            wait_for(partial(ran, number + 10))
            dead.start()
            wait_for(partial(dead.follows, replica))
            wait_for(lambda: all(nodes.state(node) == "ok" for node in nodes.nodes))
        assert worker.stop() == 0
        assert "Frequent restarts" not in worker.log.read_text()  # it looks, and then reconnects
