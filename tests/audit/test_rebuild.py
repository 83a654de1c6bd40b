"""Whatever becomes of the indexes, a rebuild writes them again from truth, and changes no truth."""

from __future__ import annotations

import os
from random import Random

import pytest
import redis

from fairqueue._stores.engine import Engine
from fairqueue._stores.library import Read, read_source
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.audit import audit, rebuild
from fairqueue.testing import ManualClock
from tests.audit.spoiled import play, spoil, truth_of
from tests.contract.world import World
from tests.small_pages import with_small_pages

ROUNDS = int(os.environ.get("REBUILD_ROUNDS", "40"))
MOST = 12  # indexes that are damaged at once
NAMED = {"aside", "stranger"}
"""What is named and not mended."""


def wrong(engine: Engine, clock: ManualClock, seed: int) -> str:
    """Play, spoil, rebuild, and say what is not as it was."""
    random, world = Random(seed), World(Store(engine, clock=clock), clock)
    play(world, random)
    assert audit(engine, now=clock()) == []
    before = truth_of(engine)
    spoiled = spoil(engine, random, MOST)
    mended = rebuild(world.store, now=clock())
    left = [one for one in mended.findings if one.where[0] not in NAMED]
    failed = [one for one in mended.repairs if not one.is_mended]
    after = truth_of(engine)
    changed = [key for key in {*before, *after} if before.get(key) != after.get(key)]
    found = left, failed, changed
    return f"seed {seed}: {spoiled}: {found}" if any(found) else ""


@pytest.mark.parametrize("read", [read_source, with_small_pages])
def test_indexes_are_written_again_from_truth(read: Read) -> None:
    """Many of them are lost or spoiled at random; in every run the same."""
    for seed in range(ROUNDS):
        engine = MemoryEngine(namespace="spoiled", read=read)
        assert wrong(engine, ManualClock(), seed) == ""


@pytest.mark.parametrize("seed", range(3))
def test_they_are_on_a_server(redis_client: redis.Redis, namespace: str, seed: int) -> None:
    """The same on Redis."""
    engine = RedisEngine(redis_client, namespace=namespace)
    assert wrong(engine, ManualClock(), seed) == ""
