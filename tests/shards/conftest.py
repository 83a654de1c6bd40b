"""A store of three shards, and one of a single shard that is given the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from fairqueue import FairQueue, Settings, StoreUnavailable
from fairqueue._shards.placement import shard_of
from fairqueue._stores.engine import Engine
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.sharded import ShardedStore, mover
from fairqueue._stores.store import Store
from fairqueue.audit import audit
from fairqueue.operate import Operators
from fairqueue.testing import ManualClock
from tests.contract.world import Worker, World

SHARDS = 3


def living_on(number: int) -> Iterator[str]:
    """Name workspaces that live on a shard."""
    return (name for name in map("w{}".format, count()) if shard_of(name, SHARDS) == number)


HOMES = [next(living_on(number)) for number in range(SHARDS)]
"""A workspace of each shard."""


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


@pytest.fixture
def both(new_engine: Callable[..., Engine], clock: ManualClock, namespace: str) -> Both:
    """Three shards on one server or in this process, and a plain store in another namespace."""
    shards = [Store(new_engine(shard=n), clock=clock) for n in range(SHARDS)]
    plain = Store(new_engine(namespace=f"{namespace}-plain"), clock=clock)
    sharded = ShardedStore(shards)
    sharded.check()
    return Both(sharded, plain, clock)


class Killed(BaseException):
    """The process is gone: it can do nothing more."""


@dataclass(eq=False)
class Namespace:
    """Processes that open the same keys, each with its own number of shards."""

    name: str
    kind: Callable[..., Engine]
    clock: ManualClock
    queues: list[FairQueue] = field(default_factory=list)

    def open(self, shards: int, **options: Any) -> FairQueue:
        """Start a process."""
        store = ShardedStore([self.shard(n) for n in range(shards)], open_shard=self.shard)
        settings = Settings(namespace=self.name, workspace_concurrency=3, **options)
        self.queues.append(FairQueue(store=store, settings=settings))
        self.queues[-1].connect()
        return self.queues[-1]

    def shard(self, n: int) -> Store:
        """Open one shard."""
        return Store(self.kind(namespace=self.name, shard=n), clock=self.clock)

    def findings(self, shards: int) -> list[object]:
        """Say what the auditor finds on any shard."""
        return [found for n in range(shards) for found in audit(self.shard(n).engine)]

    def close(self) -> None:
        """End all processes, so that no thread of theirs goes on."""
        for queue in self.queues:
            with suppress(Killed):
                queue.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes know a new number of shards at once."""
    monkeypatch.setattr(mover, "KNOWN_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("fairqueue._stores.layout.LOOK_EVERY_SECONDS", 0.0)


@pytest.fixture
def processes(
    new_engine: Callable[..., Engine], clock: ManualClock, namespace: str, at_once: None
) -> Iterator[Namespace]:
    """Those of one namespace."""
    found = Namespace(namespace, new_engine, clock)
    yield found
    found.close()


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

    def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    for name in ("call", "command"):
        vars(store.engine).pop(name, None)
        if is_away:
            vars(store.engine)[name] = refuse
