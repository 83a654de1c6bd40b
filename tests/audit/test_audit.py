"""The audit finds damage under traffic, and nothing else; test_repairs.py has each kind of it."""

from __future__ import annotations

import inspect
import itertools
import re
import threading
from types import ModuleType

import pytest
import redis

from fairqueue import Limits
from fairqueue._stores.engine import Engine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.redis.pages import FIRST
from fairqueue._stores.store import Store
from fairqueue.audit import audit, certain_findings, checks, place_checks
from fairqueue.audit.checks import Finding
from fairqueue.audit.keyspace import Keyspace
from fairqueue.testing import ManualClock
from tests.audit.damages import DAMAGES
from tests.contract.world import World


@pytest.mark.parametrize("name", ["a runnable workspace is not ready", "a lease lacks a level"])
def test_a_second_look_finds_it_again_under_traffic(
    world: World, engine: Engine, name: str
) -> None:
    """A finding names what is damaged, not all that is beside it."""
    DAMAGES[name][1](engine)
    first = audit(engine, now=world.clock())
    world.publish_many(3, "another")
    world.worker("w2").take(1)
    assert set(first) & set(audit(engine, now=world.clock()))


def test_the_audit_uses_the_engines_clock_by_default(engine: Engine) -> None:
    """Without a time, the audit takes the clock that the scripts use."""
    World(Store(engine), ManualClock()).publish()
    assert audit(engine) == []


def test_keys_that_go_after_the_scan_are_no_findings(
    redis_client: redis.Redis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a live server tokens and schedules come and go while the keys are read."""
    engine = RedisEngine(redis_client, namespace=namespace)
    World(Store(engine), ManualClock()).publish()
    gone = [engine.keys.key(kind, "gone").encode() for kind in ("token", "scheduled", "slots")]
    found = list(redis_client.scan_iter(match=engine.keys.prefix + "*"))
    monkeypatch.setattr(redis_client, "scan_iter", lambda **_: [*found, *gone])
    assert audit(engine) == []
    assert sorted(found) == sorted(entry.key for entry in engine.dump())


def test_what_changes_together_is_read_together(redis_client: redis.Redis, namespace: str) -> None:
    """A node and its place in a list: else one that comes and goes all the time would look lost."""
    engine = RedisEngine(redis_client, namespace=namespace)
    world = World(Store(engine), ManualClock())
    world.limit_task("report", concurrency=1)
    world.publish(task="report")
    keys = (entry.key.decode().removeprefix(engine.keys.prefix) for entry in engine.dump())
    kinds = [key.partition(":")[0] for key in keys]
    assert {"inner_nodes", "nodes_of_shared_limit"} <= set(kinds[: len(FIRST & {*kinds})]) <= FIRST


def test_large_keys_are_read_page_by_page(redis_client: redis.Redis, namespace: str) -> None:
    """No command reads a key whole that has many entries, and payloads stay on the server."""
    engine = RedisEngine(redis_client, namespace=namespace)
    world = World(Store(engine), ManualClock())
    for n in range(1100):
        world.publish(payload=b"x" * 50)
        world.publish(f"w{n}", delay_seconds=60)
    redis_client.config_resetstat()
    entries = {entry.key.decode(): entry.value for entry in engine.dump(payloads=False)}
    stats = redis_client.info("commandstats")
    assert "cmdstat_keys" not in stats
    lane, jobs = engine.keys.key("lane", "a", "q", "0"), engine.keys.key("jobs", "q")
    assert len(entries[lane]) == 1100
    assert len(entries[jobs]) == 2200
    assert not any(b"x" in head for head in entries[jobs].values())
    assert stats["cmdstat_hscan"]["calls"] >= 2200 // 250
    assert stats["cmdstat_lrange"]["calls"] == 3 + 1  # and the token
    assert audit(engine) == []


def test_nothing_is_found_while_others_work(redis_client: redis.Redis, namespace: str) -> None:
    """What a look meets half done is not told, however often a workspace comes and goes."""
    engine = RedisEngine(redis_client, namespace=namespace)
    stop = threading.Event()

    def work(name: str) -> None:
        world = World(Store(engine.clone()), ManualClock())
        worker = world.worker(name)
        for n in itertools.count():
            if stop.is_set():
                return
            world.publish(f"w{n % 5}", f"{name}-{n}", delay_seconds=n % 3 * 0.01)
            for lease in worker.take(2):
                if n % 4:
                    worker.finish(lease)
                else:
                    worker.release(lease)

    Store(engine).set_limits("workspace", "w1", Limits(concurrency=1))
    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    try:
        found = [certain_findings(engine)[1] for _ in range(10)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [finding for each in found for finding in each] == []


def test_what_comes_and_goes_is_not_certain(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That several looks find an idle queue half done does not say that it stood still."""
    met = Finding("I6", "queue 'q' has jobs and no record", ("node", "q"))
    of_looks = iter([*[[met]] * (checks.LOOKS - 1), []])
    monkeypatch.setattr(checks, "findings", lambda _: next(of_looks))
    assert certain_findings(engine)[1] == []


def test_damage_without_a_record_is_found(world: World, engine: Engine) -> None:
    """By each of the looks."""
    world.publish()
    engine.command("HDEL", engine.keys.key("shard"), "queue:q")
    assert ("node", "q") in {found.where for found in certain_findings(engine)[1]}


def test_keys_of_jobs_never_expire(world: World, engine: Engine) -> None:
    """Only what is counted has a time to live."""
    world.publish(group="g")
    space = Keyspace(engine)
    assert {kind for kind, *_ in space.expiring} == {"activity"}
    assert {kind for kind, *_ in space.keys} >= {"shard", "jobs", "leases"}


def test_every_key_has_one_hash_tag(redis_client: redis.Redis, namespace: str) -> None:
    """All keys that a store has left on this server begin with ``{namespace:shard}:``."""
    world = World(Store(RedisEngine(redis_client, namespace=namespace)), ManualClock())
    world.publish("a:b {c}", "x}{", queue="q {2}", task="{t}")
    for key in redis_client.scan_iter(match="{*", count=1000):
        assert re.fullmatch(r"\{[^{}]+:\d+\}:[^{}]*", key.decode())


@pytest.mark.parametrize("module", [checks, place_checks])
def test_each_check_names_its_invariant(module: ModuleType) -> None:
    """One without it would never be made."""
    functions = [each for _, each in inspect.getmembers(module, inspect.isfunction)]
    own = [each for each in functions if each.__module__ == module.__name__]
    found = [each for each in own if str(inspect.signature(each)).endswith("Iterator[Found]'")]
    assert {each for each in found if list(inspect.signature(each).parameters) == ["a"]} == {
        check for check in checks.CHECKS if check.__module__ == module.__name__
    }
