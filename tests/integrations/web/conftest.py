"""A queue in memory, with one place for each workspace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fairqueue import CapacityExceeded, FairQueue


@pytest.fixture
def queue(namespace: str) -> Iterator[FairQueue]:
    """One request and one waiting job for each workspace, three requests in all."""
    with FairQueue(
        "memory://",
        namespace=namespace,
        workspace_requests=1,
        total_requests=3,
        workspace_capacity=1,
        total_capacity=3,
    ) as made:
        yield made


@pytest.fixture
def full(queue: FairQueue) -> CapacityExceeded:
    """What a publish to a full workspace raises."""
    queue.publish(b"", queue="q", workspace="full")
    with pytest.raises(CapacityExceeded) as error:
        queue.publish(b"", queue="q", workspace="full")
    return error.value
