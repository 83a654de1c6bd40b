"""A store of three shards, and one of a single shard that is given the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from fairqueue import Settings, StoreUnavailable
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store
from fairqueue.operate import Operators
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World

SHARDS = 3


@dataclass(eq=False)
class Both:
    """What is done in a sharded store and in a plain one, side by side."""

    sharded: ShardedStore
    plain: Store
    clock: ManualClock

    def __post_init__(self) -> None:
        self.worlds = [World(self.plain, self.clock)]
        self.worlds += [World(shard, self.clock) for shard in self.sharded.shards]
        self._workers: dict[tuple[int, str], Worker] = {}

    @property
    def admins(self) -> tuple[Operators, Operators]:
        """What an operator has: of the sharded store, and of the plain one."""
        return Operators(lambda: self.sharded, Settings()), Operators(
            lambda: self.plain, Settings()
        )

    def world_of(self, workspace: str) -> World:
        """Return the shard of a workspace, with its clock."""
        return self.worlds[1 + self.sharded.shards.index(self.sharded.home(workspace))]

    def publish(self, workspace: str, job_id: str, **job: object) -> None:
        """Publish it to both."""
        for world in (self.worlds[0], self.world_of(workspace)):
            world.publish(workspace, job_id, **job)  # type: ignore[arg-type]

    def run_all(self, queue: str, owner: str = "w1") -> None:
        """Claim every job of a queue in both."""
        for worker in self.workers(owner):
            worker.take(100, queue)

    def workers(self, owner: str = "w1") -> list[Worker]:
        """Return one owner's calls, of the plain store and of each shard."""
        for n, world in enumerate(self.worlds):
            if (n, owner) not in self._workers:
                self._workers[n, owner] = world.worker(owner)
        return [self._workers[n, owner] for n in range(len(self.worlds))]


@pytest.fixture(params=["memory", "redis"])
def both(request: pytest.FixtureRequest, clock: ManualClock, namespace: str) -> Iterator[Both]:
    """Three shards on one server or in this process, and a plain store in another namespace."""
    kind: Callable[..., Engine] = partial(MemoryEngine, Database())
    if request.param == "redis":
        kind = partial(RedisEngine, request.getfixturevalue("redis_client"))
    engines = [kind(namespace=namespace, shard=n) for n in range(SHARDS)]
    plain = kind(namespace=f"{namespace}-plain")
    sharded = ShardedStore([Store(engine, clock=clock) for engine in engines])
    yield Both(sharded, Store(plain, clock=clock), clock)
    for engine in (*engines, plain):
        engine.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publish does not wait for a workspace that moves, since the test moves it."""
    monkeypatch.setattr("fairqueue._stores.sharded.shards.PAUSES_SECONDS", (0.0,))


@pytest.fixture
def servers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each shard has a server of its own: one may be away without the others."""
    for kind in (MemoryEngine, RedisEngine):
        monkeypatch.setattr(kind, "server", property(lambda engine: f"server {engine.shard}"))


def put_away(store: Store, *, is_away: bool = True) -> None:
    """Let one shard of a server answer no more, or again."""

    def refuse() -> None:
        raise StoreUnavailable("away")

    vars(store.engine).pop("refuse_if_open", None)
    if is_away:
        vars(store.engine)["refuse_if_open"] = refuse
