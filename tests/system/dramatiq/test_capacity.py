"""Full workspaces: ``enqueue`` refuses at once, and the count is exact."""

from __future__ import annotations

from typing import Any

from fairqueue_dramatiq import CapacityExceeded
from tests.system.contention import CAPACITY, Publish, assert_exact
from tests.system.dramatiq.conftest import message


def test_capacity_is_exact_under_contention(mill: Any) -> None:
    """Of 160 messages at once for a capacity of 50, exactly 50 are accepted, 20 times of 20.

    The publishers have no option set: the limits are read from what is stored.
    """
    with mill.core(workspace_capacity=CAPACITY) as core:
        core.connect()

    def open_producer() -> Publish:
        broker = mill.broker(mill.settings())
        return lambda n, workspace: broker.enqueue(message("work", n, workspace=workspace))

    assert_exact(open_producer, CapacityExceeded)
    open_producer()(0, "another")
