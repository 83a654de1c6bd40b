"""``fairqueues://``: a server with TLS, with certificates made here by one trusted authority."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from kombu.exceptions import OperationalError

from fairqueue import StoreUnavailable
from fairqueue.testing import EmbeddedServer
from tests.system.tls import Papers


class TlsServer(EmbeddedServer):
    """Speaks only TLS, and only to clients with a certificate."""

    papers: Papers

    def __init__(self, papers: Papers) -> None:
        self.papers = papers
        super().__init__(tcp=True)

    def _config(self, *, persistent: bool) -> str:
        plain = super()._config(persistent=persistent)
        certificate, key = self.papers.server
        return plain.replace(f"port {self.port}\n", "port 0\n") + (
            f"tls-port {self.port}\n"
            f'tls-cert-file "{certificate}"\n'
            f'tls-key-file "{key}"\n'
            f'tls-ca-cert-file "{self.papers.authority}"\n'
            "tls-auth-clients yes\n"
        )


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def tls_server(papers: Papers) -> Iterator[TlsServer]:
    try:
        server = _started(papers)
    except StoreUnavailable as error:
        pytest.skip(f"no server here was built with TLS: {error}")
    yield server
    server.stop()


def _started(papers: Papers) -> TlsServer:
    server = TlsServer(papers)
    try:
        server.start()
    except StoreUnavailable:  # the wheels' servers have no TLS: try without the first of PATH
        server = TlsServer(papers)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", os.environ["PATH"].partition(os.pathsep)[2])
            server.start()
    return server


@pytest.fixture
def tls_url(tls_server: TlsServer, namespace: str) -> Callable[..., str]:
    def url(**tls: object) -> str:
        query = urlencode({"namespace": namespace, "workspace_from": "kwarg:tenant_id", **tls})
        return f"fairqueues://{tls_server.tcp_address}/0?{query}"

    return url


def shown(papers: Papers, *, trust: Path | None = None) -> dict[str, Path]:
    certificate, key = papers.client
    return {
        "ssl_ca_certs": trust or papers.authority,
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
    }


def test_tasks_and_results_pass_over_tls(shop: Any, tls_url: Any, papers: Papers) -> None:
    """Worker, producer, control and results use one URL; both sides verify each other."""
    url = tls_url(**shown(papers))
    shop.config = {"result_backend": url}
    shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    publisher = shop.publisher(url, backend=url)

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
    assert "certificate verify failed" in refusal(shop, tls_url())


def test_a_client_without_a_certificate_is_refused(shop: Any, tls_url: Any, papers: Papers) -> None:
    """The server asks for one; the producer's error says so, without its password."""
    url = tls_url(ssl_ca_certs=papers.authority)

    told = refusal(shop, url)

    assert told
    assert url.split("@")[0].rsplit(":", 1)[1] not in told
