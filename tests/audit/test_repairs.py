"""Each kind of damage that the auditor knows is mended, and the queue goes on."""

from __future__ import annotations

import os
from random import Random

import pytest
import redis

from fairqueue._keys import decode_job
from fairqueue._stores.engine import Engine
from fairqueue._stores.library import Read, read_source
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.audit import Finding, Mended, audit, rebuild
from fairqueue.audit.keyspace import Keyspace
from fairqueue.errors import ConfigurationError
from fairqueue.testing import ManualClock
from tests.audit.damages import DAMAGES, SHARED_DAMAGES, Damage
from tests.audit.spoiled import play, spoil, truth_of
from tests.contract.world import World, ids
from tests.small_pages import with_small_pages

ONLY_NAMED = {"limits", "stranger", "aside"}
"""What is named and not mended: jobs that run, keys of others, records kept for an operator."""
OTHER_FORMAT = "the keys have another format"
MENDABLE = [name for name in DAMAGES if name != OTHER_FORMAT]
HELD = {"a task's limit is exceeded", "a task is paused and its inner node is not closed"}
"""Damages after which a limit or a pause holds jobs back."""
QUEUES = ("q", "q2", "q3")


def jobs_left(engine: Engine) -> set[str]:
    """Ids of all jobs whose record can be read."""
    space = Keyspace(engine)
    unread = {(queue, job) for kind, queue, *more in space.unreadable for job in more[:1]}
    jobs = ((names[0], job) for names, of in space.all("jobs") for job in of)
    return {decode_job(job) for queue, job in jobs if (queue, job) not in unread}


def left_over(found: list[Finding] | tuple[Finding, ...]) -> list[Finding]:
    """What should have been mended."""
    return [finding for finding in found if finding.where[0] not in ONLY_NAMED]


def run_all(world: World, engine: Engine) -> set[str]:
    """Run everything that waits or runs, below all limits; return the ids."""
    worker, done = world.worker("w9"), set()
    lowered = {one.text for one in audit(engine, now=world.clock()) if one.invariant == "I2"}
    for _ in range(12):
        running = worker.take(8, *QUEUES)
        found = audit(engine, now=world.clock())
        assert {one.text for one in found if one.invariant == "I2"} <= lowered
        while running:
            done |= set(ids(running))
            for lease in running:
                worker.finish(lease, 0.1)
            running = worker.take(8, *QUEUES)
        world.pass_time(10)
    return done


def check(world: World, engine: Engine, name: str, *, invariant: str) -> Mended:
    before = {finding.text for finding in audit(engine, now=world.clock())}
    jobs = jobs_left(engine)
    mended = rebuild(world.store, now=world.clock())
    assert left_over(mended.findings) == [], name
    assert [one for one in mended.repairs if not one.is_mended] == []
    told = {finding.invariant for finding in mended.findings}
    assert {one.invariant for one in mended.repairs} | told >= {invariant}
    assert {one.text for one in mended.repairs} & before or told
    ran = run_all(world, engine)
    assert ran | (jobs_left(engine) if name in HELD else set()) >= jobs
    assert left_over(audit(engine, now=world.clock())) == []
    return mended


@pytest.mark.parametrize("name", [*MENDABLE, *SHARED_DAMAGES])
def test_damage_is_mended(request: pytest.FixtureRequest, engine: Engine, name: str) -> None:
    """It is found, mended and named, every job that is left runs, and limits hold."""
    of_world, damages = ("world", DAMAGES) if name in DAMAGES else ("shared_world", SHARED_DAMAGES)
    world: World = request.getfixturevalue(of_world)
    invariant, damage = damages[name]
    damage(engine)
    check(world, engine, name, invariant=invariant)


def test_a_slot_of_no_lease_sets_nothing_aside(world: World, engine: Engine) -> None:
    """It goes, and no lease is missed, though its workspace has no record."""
    engine.command("SADD", engine.keys.key("slots", "ghost"), 77)
    assert rebuild(world.store, now=world.clock()).findings == ()
    assert engine.command("EXISTS", engine.keys.key("slots", "ghost")) == 0


def test_a_sound_store_is_left_alone(world: World, engine: Engine) -> None:
    """Nothing is found, so nothing is written."""
    before = {entry.key: entry.value for entry in engine.dump()}
    assert rebuild(world.store, now=world.clock()) == Mended()
    assert {entry.key: entry.value for entry in engine.dump()} == before


def test_keys_of_a_newer_release_are_refused(world: World, engine: Engine) -> None:
    """They are told and not touched, and every script refuses them."""
    DAMAGES[OTHER_FORMAT][1](engine)
    mended = rebuild(world.store, now=world.clock())
    assert mended.repairs == ()
    assert [finding.where for finding in mended.findings] == [("format",)]
    with pytest.raises(ConfigurationError, match="upgrade fairqueue"):
        world.store.rebuild("shard", ())


MORE: dict[str, Damage] = {
    "the shard's record is cut off": lambda e: e.command(
        "HSET", e.keys.key("shard"), "record", "17000 3"
    ),
    "all leases are lost": lambda e: e.command("UNLINK", e.keys.key("leases")),
}


@pytest.mark.parametrize("name", MORE)
def test_lost_truth_is_mended(world: World, engine: Engine, name: str) -> None:
    """What is left of truth goes on without it."""
    MORE[name](engine)
    jobs = jobs_left(engine)
    mended = rebuild(world.store, now=world.clock())
    assert left_over(mended.findings) == []
    assert mended.repairs
    assert run_all(world, engine) >= jobs
    assert left_over(audit(engine, now=world.clock())) == []


def test_a_repair_of_the_shard_s_record_forgets_no_ended_job(world: World, engine: Engine) -> None:
    """A job that ended a moment ago and is published again is no new job."""
    world.publish("a", "ended", queue="own")
    worker = world.worker("w7")
    worker.finish(worker.take_one("own"))
    MORE["the shard's record is cut off"](engine)
    assert rebuild(world.store, now=world.clock()).repairs
    assert not world.again("a", "ended", queue="own")


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
