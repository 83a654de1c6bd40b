"""A real Sentinel trio: the primary is asked for at each connect, by the core and by commands."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from redis.sentinel import Sentinel

from fairqueue import ConfigurationError, FairQueue, StoreUnavailable
from fairqueue._stores.redis.address import client_at
from fairqueue_web import JobEvents
from tests.nodes import Node, Watched, data_node, free_port, sentinel_node, watched
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def trio() -> Iterator[Watched]:
    """A primary with a replica, and three Sentinels."""
    with watched() as trio:
        yield trio


@pytest.mark.parametrize("scheme", ["redis+sentinel", "fairqueue+sentinel"])
@pytest.mark.parametrize("rest", ["mymaster/0", "mymaster", "0?master_name=mymaster"])
def test_the_primary_is_found(trio: Watched, namespace: str, scheme: str, rest: str) -> None:
    """The service stands in the path or in ``master_name``."""
    with FairQueue(f"{scheme}://{trio.hosts}/{rest}", namespace=namespace) as queue:
        job = queue.publish(b"x", queue="q", workspace="w")
        assert [lease.job.id for lease in queue.claim(["q"], wait_seconds=1).leases] == [job]


def test_a_client_of_redis_pys_own_sentinel(trio: Watched, namespace: str) -> None:
    """What ``master_for`` returns is taken as a client, and cloned for other threads."""
    hosts = [("127.0.0.1", node.port) for node in trio.sentinels]
    finder = Sentinel(hosts)
    client = finder.master_for("mymaster")
    with FairQueue(client=client, namespace=namespace) as queue, queue.clone() as other:
        job = queue.publish(b"x", queue="q", workspace="w")
        assert [lease.job.id for lease in other.claim(["q"], wait_seconds=1).leases] == [job]
    for each in finder.sentinels:
        each.close()


def test_tls_to_the_primary() -> None:
    """Asked for by the scheme; options of TLS are the primary's."""
    client = client_at("rediss+sentinel://h/mymaster?ssl_cert_reqs=none&sentinel_ssl=true")
    pool = client.connection_pool
    assert issubclass(pool.connection_class, redis.SSLConnection)
    assert pool.connection_kwargs["ssl_cert_reqs"] == "none"
    client_at("redis+sentinel://h/mymaster?sentinel_ssl=on&sentinel_ssl_cert_reqs=CERT_NONE")


def test_sentinels_that_are_down_are_passed(trio: Watched, namespace: str) -> None:
    """One that answers is enough."""
    hosts = f"127.0.0.1:{free_port()},{trio.hosts.split(',')[2]}"
    with FairQueue(f"redis+sentinel://{hosts}/mymaster", namespace=namespace) as queue:
        assert queue.publish(b"x", queue="q", workspace="w")


@pytest.fixture
def two() -> Iterator[tuple[Node, Node, str]]:
    """Two primaries, each named by a Sentinel whatever becomes of it; the first is asked first."""
    before, after = nodes = [data_node().start(), data_node().start()]
    slow = [sentinel_node(node, "s", others=9, down_after_ms=3_600_000) for node in nodes]
    hosts = ",".join(f"127.0.0.1:{sentinel.start().port}" for sentinel in slow)
    yield before, after, f"redis+sentinel://{hosts}/s"
    for node in [*nodes, *slow]:
        node.close()


@pytest.fixture
def behind(two: tuple[Node, Node, str], namespace: str) -> Iterator[tuple[Node, Node, FairQueue]]:
    """The same, and a queue."""
    with FairQueue(two[2], namespace=namespace) as queue:
        yield two[0], two[1], queue


def test_a_sentinel_that_names_a_dead_primary(behind: tuple[Node, Node, FairQueue]) -> None:
    """The call after the one that found it dead asks another Sentinel, and so do all others."""
    before, _, queue = behind
    before.kill()
    with pytest.raises(StoreUnavailable):
        queue.publish(b"x", queue="q", workspace="w")
    queue.publish(b"x", queue="q", workspace="w")
    queue.close()
    assert queue.depth("q") == 1


def test_a_sentinel_that_names_a_replica(behind: tuple[Node, Node, FairQueue]) -> None:
    """A primary that has stepped down answers, but refuses to write."""
    before, after, queue = behind
    queue.publish(b"x", queue="q", workspace="w")
    before.replicate(after)
    with pytest.raises(StoreUnavailable):
        queue.publish(b"x", queue="q", workspace="w")
    queue.publish(b"x", queue="other", workspace="w")
    assert (queue.depth("q"), queue.depth("other")) == (0, 1)


def test_a_primary_that_was_silent_is_left_by_all_shards(
    two: tuple[Node, Node, str], namespace: str
) -> None:
    """It may have been deposed meanwhile, and still confirm what will be lost."""
    before, _, url = two
    names = [f"w{n}" for n in range(9)]
    with FairQueue(f"{url}?socket_timeout=1", namespace=namespace, shards=4) as queue:
        for name in names:
            queue.publish(b"x", queue="before", workspace=name)
        before.freeze()
        with pytest.raises(StoreUnavailable):
            queue.publish(b"x", queue="q", workspace=names[0])
        before.thaw()
        wait_for(before.answers)
        for name in names:
            queue.publish(b"x", queue="q", workspace=name)
        assert (queue.depth("before"), queue.depth("q")) == (0, len(names))


def test_a_late_reply_of_a_primary_that_was_silent_does_not_count(
    two: tuple[Node, Node, str], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call was under way while another one met the time-out."""
    before, _, url = two
    monkeypatch.setattr("fairqueue._stores.redis.connections.ASK_SECONDS", 0.0)
    with (
        FairQueue(f"{url}?socket_timeout=1", namespace=namespace) as queue,
        queue.clone() as other,
        ThreadPoolExecutor() as threads,
    ):
        for each in (queue, other):
            each.publish(b"x", queue="before", workspace="w")
        before.freeze()
        first = threads.submit(queue.publish, b"x", queue="q", workspace="w")
        time.sleep(0.5)
        then = threads.submit(other.publish, b"x", queue="q", workspace="w")
        assert isinstance(first.exception(), StoreUnavailable)
        before.thaw()
        assert isinstance(then.exception(), StoreUnavailable)


def test_no_sentinel_knows_the_service(trio: Watched) -> None:
    """The error names the service, whom it asked, and what to look at."""
    with (
        FairQueue(f"redis+sentinel://{trio.hosts},127.0.0.1:{free_port()}/other") as queue,
        pytest.raises(
            StoreUnavailable, match=r"no Sentinel knows a primary of 'other'.*Connection"
        ),
    ):
        queue.connect()


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("h:26379/0", "names no service"),
        ("h:26379", "names no service"),
        ("h:port/mymaster", "port of a Sentinel must be a number"),
        ("/mymaster", "has no host"),
        ("h/mymaster/jobs", "a number such as /0"),
        ("h/mymaster?sentinel_foo=1", "an option 'foo'"),
        ("h/mymaster?foo=1", "an option 'foo'"),
        ("h/mymaster?sentinel_socket_timeout=-1", "'sentinel_socket_timeout' of the URL must be"),
        ("h/mymaster?sentinel_ssl=ture", "sentinel_ssl must be true or false"),
        ("h/mymaster?sentinel_ssl=1&sentinel_ssl_cert_reqs=maybe", "Requirements Flag: maybe"),
        ("h/mymaster?sentinel_ssl=1&sentinel_ssl_ca_certs=/no", "sentinel_ssl_ca_certs=/no cannot"),
        ("h/mymaster?min_other_sentinels=x", "min_other_sentinels must be a number"),
        ("h:s3c/ret:1@h/mymaster", "percent-encoded"),
    ],
)
def test_bad_urls(rest: str, said: str) -> None:
    """The error says what is wrong, and shows no password."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        FairQueue(f"redis+sentinel://u:hunter2@{rest}")
    assert "hunter2" not in str(caught.value)


def test_sentinels_behind_a_password(namespace: str) -> None:
    """Those of ``sentinel_…`` are for the Sentinels, and the URL's own is for the primary."""
    with watched(password="of-data", sentinel_password="of-sentinels") as trio:
        url = f"redis+sentinel://:of-data@{trio.hosts}/mymaster/0"
        with FairQueue(f"{url}?sentinel_password=of-sentinels", namespace=namespace) as queue:
            assert queue.publish(b"x", queue="q", workspace="w")
        with FairQueue(url) as queue, pytest.raises(StoreUnavailable, match="sentinel_…"):
            queue.connect()


def test_a_failover(trio: Watched, namespace: str) -> None:
    """Killed: calls go on at the new primary, and so do a wait and a stream of events."""
    url = f"redis+sentinel://{trio.hosts}/mymaster/0"
    with FairQueue(url, namespace=namespace) as queue, queue.clone() as waiting:
        job = queue.publish(b"x", queue="q", workspace="w")
        events = JobEvents(queue, job, workspace="w")
        seen = [next(iter(events))]
        stream = threading.Thread(target=lambda: seen.extend(events), daemon=True)
        stream.start()
        assert waiting.claim(["idle"], wait_seconds=0.1).leases == ()
        old = wait_for(trio.primary)
        trio.fail_over()

        def published() -> bool:
            try:
                return bool(queue.publish(b"x", queue="idle", workspace="w", job_id="one"))
            except StoreUnavailable:
                return False

        def claimed() -> list[str]:
            try:
                return [lease.job.id for lease in waiting.claim(["idle"], wait_seconds=1).leases]
            except StoreUnavailable:
                return []

        wait_for(published)
        assert wait_for(claimed) == ["one"]
        assert queue.depth("q") == 1
        (lease,) = queue.claim(["q"]).leases
        queue.ack(lease)
        stream.join(30)
        assert b'"waiting"' in seen[0]
        assert b'"ended"' in seen[-1]
        old.start()
