"""``queue.admin``, the names before the first release: a call means what it meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import ConfigurationError, FairQueue, Pause


@pytest.fixture
def queue(namespace: str) -> FairQueue:
    """A queue in memory."""
    return FairQueue(f"memory://{namespace}")


def test_an_empty_name_is_no_scope(queue: FairQueue) -> None:
    """It is refused: neither everything is paused nor all dead letters are purged."""
    admin: Any = queue.admin
    acts: tuple[Callable[[], Any], ...] = (
        lambda: admin.pause(workspace=""),
        lambda: admin.drain(queue=""),
        lambda: admin.purge_dead(""),
        lambda: admin.replay_all(""),
        lambda: admin.pause(workspace="a", queue="b"),
    )
    for act in acts:
        with pytest.raises(ConfigurationError):
            act()
    assert admin.pauses() == {}


def test_limits_and_pauses_by_their_earlier_names(queue: FairQueue) -> None:
    """Each goes to the part that has it now."""
    admin: Any = queue.admin
    admin.set_limits("acme", concurrency=2)
    admin.set_task_limits("send", rate=5)
    assert admin.limits("acme")["concurrency"].value == 2
    assert admin.task_limits("send")["rate"].value == 5
    admin.unset_limits("acme")
    assert admin.limits("acme") == {}
    admin.pause()
    assert admin.pauses() == {("total", ""): Pause.PAUSED}
