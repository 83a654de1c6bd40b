"""Configured limits come back with the next beat of any worker once the store has lost its data."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fairqueue import FairQueue
from fairqueue._stores.store import Store
from fairqueue._types import Limits
from tests.contract.world import World

LEASE_SECONDS = 30.0


class Monotonic:
    """The worker's own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic()
        monkeypatch.setattr("fairqueue._utils.time.monotonic", lambda: self.now)


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    """A clock that the test moves."""
    return Monotonic(monkeypatch)


def lose_all(store: Store) -> None:
    """Delete every key of the namespace, as FLUSHDB does."""
    for key, _, _ in list(store.engine.dump()):
        store.engine.command("DEL", key)


def worker(store: Store, **settings: Any) -> FairQueue:
    return FairQueue(store=store, authoritative=True, lease_seconds=LEASE_SECONDS, **settings)


def running(queue: FairQueue, world: World) -> int:
    """How many of three jobs a claim starts."""
    world.publish_many(3, "acme")
    return len(queue.claim(["q"], 3).leases)


SETTINGS: dict[str, dict[str, Any]] = {
    "workspace_concurrency": {"workspace_concurrency": 1},
    "workspaces": {"workspaces": {"acme": {"concurrency": 1}}},
    "tasks": {"tasks": {"t": {"concurrency": 1}}},
    "total_concurrency": {"total_concurrency": 1},
}


@pytest.mark.parametrize("named", SETTINGS)
def test_limits_come_back(
    world: World, monotonic: Monotonic, caplog: pytest.LogCaptureFixture, named: str
) -> None:
    """A third of a lease later they are in force again before a job starts, and it is told."""
    caplog.set_level("WARNING", logger="fairqueue")
    queue = worker(world.store, **SETTINGS[named])
    assert running(queue, world) == 1
    lose_all(world.store)
    monotonic.now += LEASE_SECONDS / 3
    assert running(queue, world) == 1
    assert [text for text in caplog.messages if "are gone, as after FLUSHDB" in text]


def test_limits_that_were_removed_stay_removed(world: World, monotonic: Monotonic) -> None:
    """An operator took them away; a worker that runs leaves it so."""
    old = worker(world.store, workspace_concurrency=1)
    assert running(old, world) == 1
    old.limits.unset_configured()
    monotonic.now += LEASE_SECONDS
    assert running(old, world) == 3


def test_limits_of_another_worker_stay(world: World, monotonic: Monotonic) -> None:
    """What is stored is not replaced by a beat, only what is gone."""
    old = worker(world.store, workspace_concurrency=1)
    old.connect()
    worker(world.store, workspace_concurrency=2).connect()
    monotonic.now += LEASE_SECONDS
    assert running(old, world) == 2


def test_live_limits_do_not_hide_the_loss(world: World, monotonic: Monotonic) -> None:
    """An operator set one after the loss: the configured ones come back beside it."""
    queue = worker(world.store, workspace_concurrency=1)
    queue.connect()
    lose_all(world.store)
    world.store.set_limits("workspace", "other", Limits(concurrency=5))
    monotonic.now += LEASE_SECONDS
    assert running(queue, world) == 1


def test_a_worker_without_limits_does_not_look(world: World) -> None:
    """It has nothing to bring back."""
    queue = worker(world.store)
    assert running(queue, world) == 3
    assert not world.store.has_limits()
