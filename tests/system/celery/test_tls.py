"""TLS: one server, and Sentinels with their primary; certificates by one trusted authority."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from kombu.exceptions import OperationalError

from fairqueue import FairQueue, StoreUnavailable
from fairqueue.testing import find_server
from tests.nodes import Node, free_port
from tests.system.ledger import wait_for
from tests.system.tls import Papers, knows_tls

SERVICE = "mymaster"


class TlsNode(Node):
    """A server whose clients come by TLS, with a certificate; tests come by its plain port."""

    def __init__(self, papers: Papers, lines: list[str], *options: str) -> None:
        self.tls_port = free_port()
        certificate, key = papers.server
        super().__init__(
            lines,
            *options,
            tls_port=self.tls_port,
            tls_cert_file=certificate,
            tls_key_file=key,
            tls_ca_cert_file=papers.authority,
            tls_auth_clients="yes",
            tls_replication="yes",  # a Sentinel speaks TLS with what it watches
        )


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def node(papers: Papers) -> Iterator[TlsNode]:
    """A server."""
    if not knows_tls(find_server() or "no server"):
        pytest.skip("the server here was built without TLS")
    with contextlib.closing(TlsNode(papers, [])) as node:
        node.start()
        yield node


@pytest.fixture
def tls_url(node: TlsNode, shop: Any) -> Callable[..., str]:
    return partial(shop.at, f"fairqueues://127.0.0.1:{node.tls_port}/0")


def shown(papers: Papers, prefix: str = "", *, trust: Path | None = None) -> dict[str, object]:
    certificate, key = papers.client
    return {
        f"{prefix}ssl_ca_certs": trust or papers.authority,
        f"{prefix}ssl_certfile": certificate,
        f"{prefix}ssl_keyfile": key,
    }


def test_tasks_and_results_pass_over_tls(shop: Any, tls_url: Any, papers: Papers) -> None:
    """Worker, producer, control and results use one URL; both sides verify each other."""
    publisher = shop.open(url=tls_url(**shown(papers)), results=True)

    assert publisher.send("work", 5, workspace="ada").get(timeout=60) == 5
    assert shop.control(publisher).ping(timeout=60, limit=1)


QUICK = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


def refusal(shop: Any, url: str) -> str:
    """The error that a producer gets."""
    publisher = shop.publisher(url, broker_transport_options=QUICK)
    with pytest.raises(OperationalError) as refused:
        publisher.send("work", 1, workspace="ada", retry=False)
    return str(refused.value)


def test_a_server_of_another_authority_is_refused(
    shop: Any, tls_url: Any, papers: Papers, tmp_path: Path
) -> None:
    """Certificates are checked by default."""
    stranger = Papers(tmp_path / "theirs").authority

    assert "certificate verify failed" in refusal(shop, tls_url(**shown(papers, trust=stranger)))
    assert "by an authority of ssl_ca_certs?" in refusal(shop, tls_url())


def test_a_client_without_a_certificate_is_refused(shop: Any, tls_url: Any, papers: Papers) -> None:
    """The server asks for one; the producer's error says so, without its password."""
    url = tls_url(ssl_ca_certs=papers.authority)

    told = refusal(shop, url)

    assert told
    assert url.split("@")[0].rsplit(":", 1)[1] not in told


@pytest.fixture(scope="module")
def sentinel(node: TlsNode, papers: Papers) -> Iterator[TlsNode]:
    """One that watches that server, and has found it up."""
    watch = [f"sentinel monitor {SERVICE} 127.0.0.1 {node.tls_port} 1"]
    with contextlib.closing(TlsNode(papers, watch, "--sentinel")) as sentinel:
        sentinel.start()
        wait_for(lambda: flags(sentinel) == "master")
        yield sentinel


def flags(sentinel: Node) -> str:
    """What it says of the primary; more than this one word if it does not reach it."""
    with sentinel.client(decode_responses=True) as client:
        return str(client.sentinel_masters()[SERVICE]["flags"])


def address(sentinel: TlsNode, **options: object) -> str:
    text = urlencode({"sentinel_ssl": "true", "ssl_cert_reqs": "required", **options})
    return f"127.0.0.1:{sentinel.tls_port}/{SERVICE}/0?{text}"


def test_the_core_over_sentinels(
    sentinel: TlsNode, papers: Papers, namespace: str, tmp_path: Path
) -> None:
    """Both sides are verified, by the primary and by the Sentinel."""
    both = {**shown(papers), **shown(papers, "sentinel_")}
    with FairQueue(f"rediss+sentinel://{address(sentinel, **both)}", namespace=namespace) as queue:
        assert queue.publish(b"x", queue="q")
    stranger = Papers(tmp_path / "theirs").authority
    for prefix in ("", "sentinel_"):
        strange = {**both, **shown(papers, prefix, trust=stranger)}
        url = f"rediss+sentinel://{address(sentinel, **strange)}"
        with (
            FairQueue(url, namespace=namespace) as queue,
            pytest.raises(StoreUnavailable, match="certificate verify failed"),
        ):
            queue.publish(b"x", queue="q")


def test_celery_over_sentinels(shop: Any, sentinel: TlsNode, papers: Papers) -> None:
    """Worker, producer and results."""
    both = {**shown(papers), **shown(papers, "sentinel_")}
    own = {"namespace": shop.namespace, "workspace_from": "kwarg:tenant_id"}
    url = f"fairqueues+sentinel://{address(sentinel, **both, **own)}"
    publisher = shop.open(url=url, results=True)
    assert publisher.send("work", 5, workspace="ada").get(timeout=60) == 5
