"""Faults at any moment stop no queue, lose no job that is left, and give no fence twice."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from random import Random

import pytest
import redis

from fairqueue._stores.library import Read, read_source
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.values import CommandError
from fairqueue._stores.redis import RedisEngine
from fairqueue.testing import ManualClock
from tests.failing_commands import FailingDatabase
from tests.model.faults import Play
from tests.small_pages import with_small_pages
from tests.told_to_fail import read_failing, tell

QUICK_STEPS = 2500
SERVER_STEPS = 500
SOAK_STEPS = int(os.environ.get("SOAK_STEPS", "200000"))
SHARDS = 4
PLAY = 10_000  # steps of one play


def _play(steps: int, seed: int, read: Read = read_source) -> Play:
    clock = ManualClock()
    database = FailingDatabase(clock, random=Random(seed))

    def deny(number: int | None = None, name: str = "") -> None:
        database.deny(lambda n, command: n == number or command == name)

    play = Play(MemoryEngine(database, namespace="faults", read=read), clock, deny, seed)
    play.play(steps, CommandError)
    return play


def _course(hash_seed: str) -> str:
    """Play in a process of its own; return what was claimed there, and what failed."""
    program = (
        "from tests.model.test_faults import _play\n"
        "play = _play(700, 1)\n"
        "print(sorted(play.fences), sorted(play.failed.items()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_seed_is_a_seed_in_every_process() -> None:
    """The same play, however Python orders its sets there."""
    assert _course("1") == _course("2")


@pytest.mark.slow
@pytest.mark.parametrize("read", [read_source, with_small_pages])
def test_faults(read: Read) -> None:
    """A short play, the same in every run; also where most workspaces have many flows."""
    play = _play(QUICK_STEPS, 1, read)
    assert sum(play.failed.values()) > QUICK_STEPS / 100


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_faults_on_a_server(redis_client: redis.Redis, namespace: str) -> None:
    """A short play whose scripts fail on Redis; some of its replies have no order there."""
    clock = ManualClock()
    engine = RedisEngine(redis_client, namespace=namespace, read=read_failing)
    play = Play(engine, clock, partial(tell, engine), 1)
    play.play(SERVER_STEPS, redis.ResponseError)
    assert sum(play.failed.values()) > SERVER_STEPS / 100
    engine.close()


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_faults_at_length(shard: int) -> None:
    """``SOAK_STEPS`` moves, others in each play; in every other one most have many flows."""
    steps, failed = SOAK_STEPS // SHARDS, 0
    for n, begun in enumerate(range(0, steps, PLAY)):
        read = with_small_pages if (shard + n) % 2 else read_source
        play = _play(min(PLAY, steps - begun), 1000 * shard + n, read)
        failed += sum(play.failed.values())
    sys.stderr.write(f"\n{shard}: {steps} moves, {failed} of them failed\n")
