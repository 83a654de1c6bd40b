"""Real servers of several processes share the places, and one that is killed gives its back."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from fairqueue import FairQueue
from fairqueue.errors import RequestRejected
from fairqueue.testing import Child
from tests.system.ledger import wait_for

HERE = Path(__file__).parent
LONGEST_SECONDS = 60.0
LEASE_SECONDS = 2.0


@contextmanager
def serving(url: str, namespace: str) -> Iterator[tuple[Child, httpx.Client]]:
    """A server on a socket of its own, and a client of it."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
        "SITE_URL": url,
        "SITE_NAMESPACE": namespace,
        "SITE_LEASE_SECONDS": str(LEASE_SECONDS),
    }
    with tempfile.TemporaryDirectory(prefix="fq-") as folder:
        address = f"{folder}/s"
        command = ["uvicorn", "--log-level", "warning", "--uds", address, "asgi_site:app"]
        child = Child([sys.executable, "-m", *command], env=env)
        transport = httpx.HTTPTransport(uds=address)
        try:
            wait_for(lambda: listens(address))
            with httpx.Client(
                transport=transport, base_url="http://site", timeout=LONGEST_SECONDS
            ) as client:
                yield child, client
        finally:
            child.end()


def listens(address: str) -> bool:
    """Whether a server does; httpx leaves the socket of a failed connection open."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(address) == 0


def hold(client: httpx.Client) -> None:
    with suppress(httpx.TransportError):
        client.get("/hold", headers={"X-Org": "acme"})


def test_servers_share_the_places(redis_url: str, namespace: str) -> None:
    """One serves acme's only request, for longer than a lease; after a kill the other serves it."""
    with (
        FairQueue(redis_url, namespace=namespace, brings_limits=False) as queue,
        serving(redis_url, namespace) as (first, one),
        serving(redis_url, namespace) as (_, other),
    ):
        holding = threading.Thread(target=hold, args=[one])
        holding.start()
        wait_for(lambda: queue.requests.in_flight("acme")[1] == 1)
        rejected = other.get("/whose", headers={"X-Org": "acme"})
        assert rejected.status_code == httpx.codes.TOO_MANY_REQUESTS
        assert int(rejected.headers["Retry-After"]) >= 1
        assert other.get("/whose", headers={"X-Org": "b"}).json() == "b"
        with pytest.raises(RequestRejected):  # its process renews the place
            queue.requests.admit("acme", wait_seconds=1.5 * LEASE_SECONDS)
        os.killpg(first.pid, signal.SIGKILL)  # its workers, too: they would go on as orphans
        holding.join(LONGEST_SECONDS)
        wait_for(lambda: other.get("/whose", headers={"X-Org": "acme"}).text.strip() == '"acme"')
    assert not holding.is_alive()
