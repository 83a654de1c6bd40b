"""A real replica takes over from its primary, and the name leads to it: calls and waits go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from fairqueue import FairQueue, StoreUnavailable
from tests.nodes import MovedName, moved_name
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system

T = TypeVar("T")


@pytest.fixture
def name() -> Iterator[MovedName]:
    """A name before a primary with a replica."""
    with moved_name() as name:
        yield name


@pytest.fixture
def queue(name: MovedName) -> Iterator[FairQueue]:
    """A queue at that name."""
    with FairQueue(f"redis://127.0.0.1:{name.port}/0", lease_seconds=30) as queue:
        yield queue


def _again(act: Callable[[], T]) -> T:
    """Do it until the store answers."""

    def once() -> list[T]:
        try:
            return [act()]
        except StoreUnavailable:
            return []

    found: list[T] = wait_for(once)
    return found[0]


def test_a_wait_ends_when_its_server_steps_down(queue: FairQueue, name: MovedName) -> None:
    """The blocked wait is told that the store is away, and the next one is woken by a job."""
    queue.publish(b"x", queue="other", workspace="w")
    told: list[BaseException] = []

    def claim() -> None:
        try:
            queue.claim(["q"], wait_seconds=30)
        except BaseException as error:  # noqa: BLE001 - whatever a worker would see
            told.append(error)

    waits = threading.Thread(target=claim)
    waits.start()
    wait_for(lambda: name.primary.client().info("clients")["blocked_clients"] == 1)
    name.promote()
    waits.join(30)
    assert [type(error) for error in told] == [StoreUnavailable]

    name.move()
    job = _again(lambda: queue.publish(b"x", queue="q", workspace="w", job_id="one"))
    leases = _again(lambda: queue.claim(["q"], wait_seconds=5)).leases
    assert [lease.job.id for lease in leases] == [job]


def test_the_check_leaves_a_server_that_has_stepped_down(queue: FairQueue, name: MovedName) -> None:
    """A replica at the address is an outage; once the name has moved, the next check passes."""
    queue.connect()
    name.promote()
    with pytest.raises(StoreUnavailable, match="read-only replica: point the URL at the primary"):
        queue.connect()
    name.move()
    assert queue.connect()
    assert queue.publish(b"x", queue="q", workspace="w")


def test_what_is_leased_is_renewed_and_ended_by_the_new_primary(
    queue: FairQueue, name: MovedName
) -> None:
    """A lease that the replica knows goes on there."""
    queue.publish(b"x", queue="q", workspace="w")
    (lease,) = queue.claim(["q"]).leases
    name.promote()
    name.move()
    assert _again(lambda: queue.renew([(lease.fence, 0.1)])).lost == frozenset()
    _again(lambda: queue.ack(lease))
    assert queue.depth("q") == 0
