"""Shards on masters: the real stores and scripts, whose calls take a master's time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from math import inf
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from fairqueue import Job, _shard_order
from fairqueue._shards import Time, shard_of
from fairqueue._stores import layout, polling
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.memory.engine import Database
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import Store
from fairqueue._types import Claimed, Stand
from fairqueue.adapters import Admission, Finish
from tests.scale.events import Master, Simulation
from tests.scale.prices import Prices, price_of_claim

QUEUE = "q"
T = TypeVar("T")


class Shard(Store):
    """A store each of whose calls occupies its master for as long as it does on a real one."""

    def __init__(self, engine: MemoryEngine, at: Setting, master: Master) -> None:
        super().__init__(engine, clock=at.simulation.clock)
        self.master, self.at = master, at
        self.claims = self.looks = 0
        self.price: Mapping[str, float] = {}

    def _serve(self, run: Callable[[], T], price: Callable[[T], float]) -> T:
        if not self.at.is_timed:
            return run()
        return self.master.serve(run, price, self.at.prices.client)

    def claim(self, **call: Any) -> Claimed:
        """Claim and end, as one call to the master."""
        finishes, told = len(call["finishes"]), bool(call["times"])

        def price(claimed: Claimed) -> float:
            return price_of_claim(self.price, finishes, len(claimed.leases), told=told)

        self.claims += 1
        run = super().claim
        return self._serve(lambda: run(**call), price)

    def stands(self, queues: Sequence[str], times: Sequence[Time]) -> tuple[Stand, ...]:
        """Look how the queues stand."""
        self.looks += 1
        run = super().stands
        return self._serve(lambda: run(queues, times), lambda _: self.price["stands"])

    def introduce(self, *_: object, **__: object) -> None:
        """Once in half a minute: not simulated."""


@dataclass
class Setting:
    """What the shards of one simulation have in common."""

    simulation: Simulation
    prices: Prices
    is_timed: bool = False
    """Whether calls take time by now."""


class Cluster:
    """Masters, the shards on them, and jobs that are published there."""

    def __init__(self, masters: int, shards: int, prices: Prices, seed: int) -> None:
        self.simulation = simulation = Simulation(seed)
        self.setting = Setting(simulation, prices)
        self.masters = [Master(simulation) for _ in range(masters)]
        self.shards = [
            Shard(self._engine(n), self.setting, self.masters[n % masters]) for n in range(shards)
        ]
        self._ids = count()
        self._homes: dict[str, int] = {}

    def _engine(self, shard: int) -> MemoryEngine:
        database = Database(clock=self.simulation.clock, random=Random(shard))
        return MemoryEngine(database, shard=shard)

    def home(self, workspace: str) -> Shard:
        """Return the shard of a workspace."""
        if workspace not in self._homes:
            self._homes[workspace] = shard_of(workspace, len(self.shards))
        return self.shards[self._homes[workspace]]

    def store(self) -> Store | ShardedStore:
        """Return the store of one process, which does not look whether there are other shards."""
        if len(self.shards) == 1:
            return self.shards[0]
        store = ShardedStore(self.shards)
        store.layout.looked_at = inf
        return store

    def publish(self, workspace: str) -> str:
        """Store a job at once; return its id."""
        job = Job(f"job{next(self._ids):013d}", workspace, QUEUE, "task", b"")
        self.home(workspace).publish(job, Admission(is_new=True))
        return job.id

    def learn(self, shard: Shard, workspace: str, seconds: float) -> None:
        """Run a job there, so that it knows how long they take."""
        self.publish(workspace)
        call: dict[str, Any] = {"owner": "teacher", "queues": [QUEUE], "lease_seconds": 30.0}
        call |= {"max_deliveries": 3, "times": ()}
        [lease] = shard.claim(number=1, n=1, finishes=(), **call).leases
        shard.claim(number=2, n=0, finishes=(Finish(lease.fence, seconds=seconds),), **call)

    def send(self, workspace: str, on_stored: Callable[[str, float], object] | None = None) -> None:
        """Let a producer publish a job; its call arrives now."""
        shard = self.home(workspace)
        seconds = shard.price["publish"]

        def run() -> None:
            stored = self.publish(workspace)
            if on_stored is not None:
                on_stored(stored, self.simulation.now + seconds)

        shard.master.arrive(run, seconds)

    @contextmanager
    def moved_time(self) -> Iterator[None]:
        """Let the real code of the processes see the simulated time, and the same chances."""
        simulation = self.simulation
        with ExitStack() as stack:
            for module in (_shard_order, layout):
                stack.enter_context(patch.object(module, "monotonic", lambda: simulation.now))
            stack.enter_context(patch.object(_shard_order, "random", simulation.random))
            uniform = simulation.random.uniform
            stack.enter_context(patch.object(polling.poll_seconds, "__defaults__", (uniform,)))
            yield
