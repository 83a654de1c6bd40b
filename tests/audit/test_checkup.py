"""What an operator is told about workers, queues and the server, beside the invariants."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import redis

from fairqueue import Pause
from fairqueue._stores.engine import Engine, Level
from fairqueue._stores.redis import health
from fairqueue._stores.redis.connections import Replicas
from fairqueue.audit import Remark
from fairqueue.audit.checks import take_look
from fairqueue.audit.remarks import of_looks, of_workers
from fairqueue.rows import WorkerRow
from tests.contract.world import World
from tests.operators import operators_of


def told(world: World, engine: Engine, *workers: WorkerRow) -> dict[str, list[Remark]]:
    """What is told now, by what it is about."""
    found: dict[str, list[Remark]] = {}
    looked = of_looks([take_look(engine, world.clock())])
    listed = (
        one for one in operators_of(world.store).doctor.status().remarks if one.about == "queues"
    )
    for remark in chain(looked, of_workers(workers), listed):
        found.setdefault(remark.about, []).append(remark)
    return found


def alive(software: str) -> WorkerRow:
    return WorkerRow("w", "w", software, 0.0, 0.0, 0)


def test_nothing_is_wrong_a_moment_after_a_publish(world: World, engine: Engine) -> None:
    """A worker has a minute to come."""
    found = told(world, engine)
    assert set(found) == {"workers"}
    assert [remark.level for remark in found["workers"]] == [Level.INFO]


def test_a_queue_without_a_claim_is_stuck(world: World, engine: Engine) -> None:
    """It has runnable jobs, and no one claims; so do leases, timers and notices of the dead."""
    world.clock.advance(200)
    found = told(world, engine)
    texts = [remark.text for remark in found["queues"]]
    assert [text.split(" has ")[0] for text in texts] == ["queue 'q'", "queue 'q3'"]
    assert "none was claimed for 200 s" in texts[0]
    assert {remark.level for remark in found["queues"]} == {Level.PROBLEM}
    late = [remark.text for remark in found["workers"] if remark.level is Level.PROBLEM]
    assert any("expired and not reaped" in text for text in late)
    assert any("due and not fired" in text for text in late)
    assert "not reported" in found["notices"][0].text


def test_a_paused_queue_is_not_stuck(world: World, engine: Engine) -> None:
    """Nothing is to be claimed there."""
    world.store.pause("total", "", Pause.PAUSED)
    world.clock.advance(200)
    assert "queues" not in told(world, engine)


def test_workers_of_several_releases_are_a_warning(world: World, engine: Engine) -> None:
    """A deploy is going on, or was forgotten somewhere."""
    workers = alive("fairqueue/1.0 celery/5.4"), alive("fairqueue/1.1 celery/5.4")
    (remark,) = told(world, engine, *workers)["workers"]
    assert remark.level is Level.WARNING
    assert "1 × fairqueue/1.0 celery/5.4" in remark.text


def test_workers_with_different_limits_are_a_warning(world: World, engine: Engine) -> None:
    """Two apps share a namespace, or a deploy is going on; one without limits replaces none."""

    def configured(name: str, limits: str) -> WorkerRow:
        return WorkerRow(name, name, "fairqueue/1", 0.0, 0.0, 0, limits=limits)

    same = [configured("a1", "x"), configured("a2", "x"), configured("b", "")]
    assert "limits" not in told(world, engine, *same)
    more = [configured(f"c{n}", "y") for n in range(5)]
    (remark,) = told(world, engine, *same, *more)["limits"]
    assert remark.level is Level.WARNING
    assert "'a1', 'a2' · 'c0', 'c1', 'c2' and 2 others; give all the same limits" in remark.text


class Server:
    """Answers as a server would in trouble."""

    def __init__(self, info: dict[str, Any], clock: Callable[[], float] = time.time) -> None:
        self._info, self._clock = info, clock

    def info(self) -> dict[str, Any]:
        return {"redis_version": "7.0.15", "aof_enabled": 1, **self._info}

    def time(self) -> tuple[int, int]:
        return int(self._clock()), 0


TROUBLES: list[tuple[dict[str, Any], Level, str]] = [
    ({"aof_enabled": 0}, Level.WARNING, "appendonly is off"),
    ({"rdb_last_bgsave_status": "err"}, Level.PROBLEM, "the last snapshot"),
    ({"aof_last_write_status": "err"}, Level.PROBLEM, "the last write"),
    ({"used_memory": 96, "maxmemory": 100}, Level.PROBLEM, "96% of maxmemory"),
    ({"used_memory": 85, "maxmemory": 100}, Level.WARNING, "85% of maxmemory"),
    ({"used_memory": 10, "total_system_memory": 100}, Level.INFO, "maxmemory is not set"),
    ({"maxmemory_policy": "allkeys-lru"}, Level.PROBLEM, "would drop jobs when it is full: set"),
    ({"maxmemory_policy": "volatile-ttl"}, Level.WARNING, "it keeps all jobs, but drops results"),
    ({"evicted_keys": 3}, Level.PROBLEM, "evicted since its start: 3 keys; jobs may be lost"),
    ({"connected_clients": 90, "maxclients": 100}, Level.WARNING, "open: 90 of 100 connections"),
    ({"rejected_connections": 2}, Level.WARNING, "because of maxclients: 2 connections"),
]


@pytest.mark.parametrize(("info", "level", "text"), TROUBLES)
def test_a_server_in_trouble_is_told(info: dict[str, Any], level: Level, text: str) -> None:
    """Each with what to do, and how much it matters."""
    found = [one for one in health.remarks(Server(info)) if text in one.text]
    assert [one.level for one in found] == [level]


def _replica(state: str = "online", lag: int = 1) -> dict[str, Any]:
    return {"ip": "10.0.0.2", "port": 6379, "state": state, "offset": 7, "lag": lag}


@pytest.mark.parametrize(
    ("replicas", "level", "text"),
    [
        ([_replica(), _replica(lag=30)], Level.INFO, "in step: 1 of 2 connected"),
        ([_replica(lag=30)], Level.PROBLEM, "in step: 0 of 1 connected replica; min_replicas"),
        ([_replica("send_bulk")], Level.PROBLEM, "in step: 0 of 1 connected replica; min"),
        ([], Level.PROBLEM, "in step: 0 of 0 connected replicas; min"),
    ],
)
def test_replicas_that_are_missing_are_told(
    replicas: list[dict[str, Any]], level: Level, text: str
) -> None:
    """One counts if it is in step and was heard of lately, so it can confirm a write."""
    info = {f"slave{n}": each for n, each in enumerate(replicas)}
    server = Server({**info, "connected_slaves": len(replicas)})
    (found,) = [one for one in health.remarks(server, Replicas(1)) if one.about == "replicas"]
    assert found.level is level
    assert found.text.startswith(text)
    assert "replicas" not in {one.about for one in health.remarks(server)}


def test_a_clock_that_is_off_is_told() -> None:
    """Delays that a framework computes by its own clock are off by as much."""
    found = {one.about: one for one in health.remarks(Server({}, lambda: time.time() - 90))}
    assert found["clock"].level is Level.WARNING
    assert "s behind that of this machine" in found["clock"].text


def test_a_server_that_refuses_info_is_told(redis_client: redis.Redis) -> None:
    """What may not be asked is said, and the rest is checked."""

    class Refusing(Server):
        def info(self) -> dict[str, Any]:
            raise redis.ResponseError("unknown command 'INFO'")

    found = {one.about: one.level for one in health.remarks(Refusing({}))}
    assert found == {"server": Level.WARNING, "latency": Level.INFO}
    assert {one.about for one in health.remarks(redis_client)} >= {"server", "memory", "latency"}
