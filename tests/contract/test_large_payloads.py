"""How many bytes one script reads where payloads are large: a page of work is bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import Job
from fairqueue._stores.memory import Database, MemoryEngine
from fairqueue._stores.store import Store
from fairqueue.adapters import Admission
from fairqueue.testing import ManualClock
from tests.contract.world import World

JOBS, PAYLOAD_BYTES = 64, 1 << 17
MOST_BYTES = 4 * PAYLOAD_BYTES


def _size(reply: Any) -> int:
    if isinstance(reply, bytes):
        return len(reply)
    return sum(map(_size, reply)) if isinstance(reply, list | tuple) else 0


class _Meter:
    """Counts the bytes that the commands of one call return."""

    def __init__(self, database: Database) -> None:
        self.bytes = 0
        for name in ("HSCAN", "HGETALL", "HMGET", "HGET"):
            field = name.encode()
            database.commands[field] = self._counting(database.commands[field])

    def _counting(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def command(*arguments: Any) -> Any:
            reply = run(*arguments)
            self.bytes += _size(reply if not hasattr(reply, "values") else _listed(reply))
            return reply

        return command

    def most_of(self, calls: Callable[[], Any]) -> int:
        """The most that one step of these has read."""
        most = 0
        for _ in calls():
            most, self.bytes = max(most, self.bytes), 0
        return max(most, self.bytes)


def _listed(table: Any) -> list[Any]:
    """A table of Lua, and those in it."""
    return [_listed(each) if hasattr(each, "values") else each for each in table.values()]


@pytest.fixture
def world() -> World:
    """A small job, and many large ones behind it."""
    clock = ManualClock()
    database = Database(clock=clock)
    world = World(Store(MemoryEngine(database), clock=clock), clock)
    for n in range(JOBS):
        payload = b"x" * (PAYLOAD_BYTES if n else 10)
        world.store.publish(Job(f"j{n}", "a", "q", "t", payload), Admission())
    world.limit(concurrency=0)
    world.meter = _Meter(database)  # type: ignore[attr-defined]
    return world


def _clean(world: World) -> Any:
    """Idle claims, until the rebuild has looked at every job."""
    worker = world.worker()
    for _ in range(3 * JOBS):
        yield worker.take()
        world.clock.advance(0.05)


CALLS: dict[str, Callable[[World], Any]] = {
    "purge": lambda world: world.store.purge("q", task="t"),
    "waiting": lambda world: iter([world.store.waiting("q", n=100)]),
    "idle claims": _clean,
}


@pytest.mark.parametrize("what", CALLS)
def test_a_step_reads_few_payloads(world: World, what: str) -> None:
    """Whatever the size of the jobs: Redis does nothing else meanwhile."""
    meter: _Meter = world.meter  # type: ignore[attr-defined]
    assert meter.most_of(lambda: CALLS[what](world)) <= MOST_BYTES
