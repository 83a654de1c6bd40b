"""Commands that fail in the middle of a script, on both engines: each of these once lost a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from redis import ResponseError

from fairqueue import Job
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.values import CommandError
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Renewed
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World
from tests.told_to_fail import failing, read_failing

FAILURES = CommandError, ResponseError


@pytest.fixture(params=["memory", "redis"])
def world(request: pytest.FixtureRequest, clock: ManualClock, namespace: str) -> Iterator[World]:
    """A world whose scripts can be told to fail."""
    engine: Engine = MemoryEngine(namespace=namespace, read=read_failing)
    if request.param == "redis":
        client = request.getfixturevalue("redis_client")
        engine = RedisEngine(client, namespace=namespace, read=read_failing)
    yield World(Store(engine, clock=clock), clock)
    engine.close()


@pytest.mark.parametrize("number", range(10, 40, 2))
def test_a_job_that_expires_alone_in_its_lane_is_not_lost(world: World, number: int) -> None:
    """An error while its lane goes leaves no mark that makes a hole of it later."""
    world.publish("a", "mortal", expires_seconds=3)
    world.clock.advance(4)
    with failing(world.store.engine, number=number), suppress(*FAILURES):
        world.reap()
    world.pass_time(20)
    assert [letter.job.id for letter in world.dead()] == ["mortal"]


@pytest.mark.parametrize("number", range(9, 34, 3))
@pytest.mark.parametrize("delay", [0.0, 5.0])
def test_an_import_that_fails_loses_no_message(world: World, number: int, delay: float) -> None:
    """The message is in its list or a job, never in both or neither; a repeat adopts it once."""
    engine = world.store.engine
    source = f"{engine.namespace} theirs"
    job = Job("theirs", "a", "q", "t", b"message", delay_seconds=delay)
    for message in (b"message", b"other"):
        engine.command("LPUSH", source, message)
    with failing(engine, number=number), suppress(*FAILURES):
        world.store.import_message(source, job)
    jobs = world.command("HLEN", ("jobs", "q"))
    assert jobs + engine.command("LLEN", source) == 2
    assert world.store.import_message(source, job)
    assert engine.command("LRANGE", source, 0, -1) == [b"other"]
    world.pass_time(20)
    assert world.drain(rounds=4, seconds=4) == ["theirs"]


def test_a_charge_that_fails_ends_no_lease(world: World, worker: Worker) -> None:
    """The leases are renewed all the same, and what failed is set aside."""
    world.publish_many(2)
    leases = worker.take(2)
    world.clock.advance(20)
    with failing(world.store.engine, name="HGET"):
        assert worker.beat(*leases, seconds=9.0) == Renewed(frozenset())
    assert world.stats().set_aside == {"failure": 2}
    world.clock.advance(20)
    world.reap()
    assert worker.renew(*leases) == frozenset()


def test_a_lease_that_cannot_be_renewed_stops_no_other(world: World, worker: Worker) -> None:
    """It is named, and the others live on; where none can be renewed, the error is raised."""
    world.publish_many(3)
    leases = worker.take(3)
    engine, expiry = world.store.engine, world.store.engine.keys.key("expiry")
    key, bad = engine.keys.key("leases"), str(leases[1].fence)
    text = engine.command("HGET", key, bad)
    words = text.split(b" ")
    engine.command("HSET", key, bad, b" ".join([*words[:6], b"never", *words[7:]]))
    world.clock.advance(1)
    assert worker.beat(*leases, seconds=0.1).failed == {leases[1].fence}
    engine.command("HSET", key, bad, text)
    others = {str(lease.fence) for lease in leases} - {bad}
    end = (world.clock() + worker.lease_seconds) * 1e6
    assert {float(engine.command("ZSCORE", expiry, fence)) for fence in others} == {end}
    assert float(engine.command("ZSCORE", expiry, bad)) < end
    for number in range(1, 20):
        with failing(engine, number=number), suppress(*FAILURES):
            assert not worker.beat(*leases, seconds=0.1).failed
    with failing(engine, name="HSET"), pytest.raises(FAILURES):
        worker.beat(*leases)


@pytest.mark.parametrize("number", range(2, 40, 2))
def test_a_replay_that_fails_loses_no_dead_letter(world: World, number: int) -> None:
    """Each is dead or a job, and the jobs run."""
    worker = world.worker()
    names = world.publish_many(2)
    for lease in worker.take(2):
        worker.reject(lease)
    with failing(world.store.engine, number=number), suppress(*FAILURES):
        world.replay_all()
    world.pass_time(20)
    done = world.drain(rounds=4, seconds=4)
    assert set(done) | {letter.job.id for letter in world.dead()} == set(names)
