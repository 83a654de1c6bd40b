"""A dashboard of a queue in memory, on a port of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairqueue import FairQueue
from fairqueue.dashboard import app, only_this_host
from tests.dashboard.serving import Visitor, served


@pytest.fixture
def queue(namespace: str) -> Iterator[FairQueue]:
    """A queue without a server."""
    with FairQueue("memory://", namespace=namespace) as queue:
        yield queue


@pytest.fixture
def site(queue: FairQueue) -> Iterator[str]:
    """The address of its dashboard, open to this host."""
    with served(app(queue, authorize=only_this_host)) as url:
        yield url


@pytest.fixture
def visitor(site: str) -> Iterator[Visitor]:
    """A visitor of that dashboard."""
    with Visitor(base_url=site) as visitor:
        yield visitor
