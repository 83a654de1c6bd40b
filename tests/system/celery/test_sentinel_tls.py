"""Sentinels and their primary over TLS: the core, and Celery with results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

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
def sentinel(papers: Papers) -> Iterator[TlsNode]:
    """One that watches a primary, and has found it up."""
    if not knows_tls(find_server() or "no server"):
        pytest.skip("the server here was built without TLS")
    primary = TlsNode(papers, [])
    watch = [f"sentinel monitor {SERVICE} 127.0.0.1 {primary.tls_port} 1"]
    sentinel = TlsNode(papers, watch, "--sentinel")
    try:
        primary.start()
        sentinel.start()
        wait_for(lambda: flags(sentinel) == "master")
        yield sentinel
    finally:
        sentinel.close()
        primary.close()


def flags(sentinel: Node) -> str:
    """What it says of the primary; more than this one word if it does not reach it."""
    with sentinel.client(decode_responses=True) as client:
        return str(client.sentinel_masters()[SERVICE]["flags"])


def query(papers: Papers, prefix: str = "", *, trust: Path | None = None) -> dict[str, object]:
    certificate, key = papers.client
    return {
        f"{prefix}ssl_ca_certs": trust or papers.authority,
        f"{prefix}ssl_certfile": certificate,
        f"{prefix}ssl_keyfile": key,
    }


def address(sentinel: TlsNode, **options: object) -> str:
    text = urlencode({"sentinel_ssl": "true", "ssl_cert_reqs": "required", **options})
    return f"127.0.0.1:{sentinel.tls_port}/{SERVICE}/0?{text}"


def test_the_core(sentinel: TlsNode, papers: Papers, namespace: str, tmp_path: Path) -> None:
    """Both sides are verified, by the primary and by the Sentinel."""
    both = {**query(papers), **query(papers, "sentinel_")}
    with FairQueue(f"rediss+sentinel://{address(sentinel, **both)}", namespace=namespace) as queue:
        assert queue.publish(b"x", queue="q")
    stranger = Papers(tmp_path / "theirs").authority
    for prefix in ("", "sentinel_"):
        strange = {**both, **query(papers, prefix, trust=stranger)}
        url = f"rediss+sentinel://{address(sentinel, **strange)}"
        with (
            FairQueue(url, namespace=namespace) as queue,
            pytest.raises(StoreUnavailable, match="certificate verify failed"),
        ):
            queue.publish(b"x", queue="q")


def test_celery(shop: Any, sentinel: TlsNode, papers: Papers) -> None:
    """Worker, producer and results."""
    both = {**query(papers), **query(papers, "sentinel_")}
    own = {"namespace": shop.namespace, "workspace_from": "kwarg:tenant_id"}
    url = f"fairqueues+sentinel://{address(sentinel, **both, **own)}"
    shop.config = {"result_backend": url}
    shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    publisher = shop.publisher(url, backend=url)
    assert publisher.send("work", 5, workspace="ada").get(timeout=60) == 5
