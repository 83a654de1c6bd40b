"""Simulated processes with slots, which claim as real ones do."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from greenlet import getcurrent

from fairqueue import Settings
from fairqueue._claimers import Claimers, claimer_of
from fairqueue._stores.sharded import ShardedStore
from fairqueue._types import Lease
from fairqueue.adapters import Finish
from tests.scale.cluster import QUEUE, Cluster, Shard
from tests.scale.events import ROUND_TRIP_SECONDS, stop

HOLD_BACK_SECONDS = 0.005
"""How long a Celery worker holds an end back while it waits for jobs, to report more at once."""

SETTINGS = Settings(lease_seconds=30)


class Process:
    """Ends and claims jobs in one call after the other, and waits while it has nothing to do."""

    def __init__(
        self,
        cluster: Cluster,
        number: int,
        slots: int,
        seconds: Callable[[], float],
        on_start: Callable[[Lease], object],
    ) -> None:
        self._cluster, self._simulation = cluster, cluster.simulation
        self._slots, self._seconds, self._on_start = slots, seconds, on_start
        self.store = cluster.store()
        self.claimer = claimer_of(self.store, SETTINGS)
        self._number = number
        self._name(number)
        self._ended: deque[Finish] = deque()
        self._running = self.done = 0
        self._sleeper: Any = None
        self._naps = 0
        self._is_waiting = False
        self._wait = Wait(cluster, self.wake)

    def _name(self, number: int) -> None:
        """Have the same name in each run."""
        owner = getattr(self.claimer, "_owner", None) or self.claimer._identity  # type: ignore[union-attr]
        owner._pid, owner._name = os.getpid(), f"process-{number}"
        self.claimer._name = owner._name  # type: ignore[union-attr]
        for each in getattr(self.claimer, "_each", [self.claimer]):
            each.owner = owner._name

    def believe(self, stands: Sequence[Any], pace: float) -> None:
        """Begin as one that has looked at each shard at some moment of the last second.

        It claims from one of them first, as others do from others, where work has been spread.
        """
        if not isinstance(self.claimer, Claimers):
            return
        order = self.claimer._order
        for number, stand in enumerate(stands):
            order.note(number, [QUEUE], stand)
            order._told_at[number] = -self._simulation.random.random()
        order._pace._of[QUEUE] = pace
        ready = [number for number, [stand] in enumerate(stands) if stand.head is not None]
        if ready:
            order._heads[ready[self._number % len(ready)]][QUEUE] = -1.0

    def run(self) -> None:
        """Go on for ever."""
        while True:
            if self._wait.woken:
                self._has_woken(self._wait.end())
            ends, self._ended = tuple(self._ended), deque()
            claimed = self.claimer.claim([QUEUE], self._slots - self._running, ends)
            for lease in claimed.leases:
                self._start(lease)
            if not self._ended and not self._wait.woken:
                self._idle(claimed.wait_seconds)

    def _has_woken(self, shards: frozenset[int]) -> None:
        if isinstance(self.store, ShardedStore):
            self.store._woken |= shards

    def _start(self, lease: Lease) -> None:
        self._running += 1
        self._on_start(lease)
        seconds = self._seconds()
        ends = partial(self._end, Finish(lease.fence, seconds=seconds))
        self._simulation.at(self._simulation.now + seconds, ends)

    def _end(self, finish: Finish) -> None:
        self._running -= 1
        self.done += 1
        self._ended.append(finish)
        held_back = HOLD_BACK_SECONDS if self._is_waiting else 0.0
        self._simulation.at(self._simulation.now + held_back, partial(self._late, self._naps))

    def _idle(self, seconds: float) -> None:
        """Wait for the end of a job, and with a free slot for a token, too."""
        self._is_waiting = self._running < self._slots
        if self._is_waiting:
            self._wait.arm()
            self._simulation.at(self._simulation.now + seconds, partial(self._late, self._naps))
        self.nap()

    def nap(self) -> None:
        """Sleep until somebody wakes this process."""
        self._sleeper = getcurrent()
        stop()

    def wake(self) -> None:
        """Let it go on if it sleeps."""
        if self._sleeper is not None:
            sleeper, self._sleeper = self._sleeper, None
            self._naps += 1
            sleeper.switch()

    def _late(self, nap: int) -> None:
        if nap == self._naps:
            self.wake()


class Bell:
    """What waits for the token of one shard; the memory engine serves it as it does its own."""

    def __init__(self, shard: Shard, rings: Callable[[], object]) -> None:
        self._shard, self._rings = shard, rings
        self.tokens = deque([shard.engine.keys.key("token", QUEUE).encode()])
        self.is_sent = False
        """Whether the process waits there."""

    def send(self) -> None:
        """Let the call to wait arrive after half a round trip."""
        if self.is_sent:
            return
        self.is_sent, simulation = True, self._shard.at.simulation
        simulation.at(simulation.now + ROUND_TRIP_SECONDS / 2, self._arrive)

    def _arrive(self) -> None:
        self._shard.master.arrive(self._enlist, self._price)

    def _enlist(self) -> None:
        if self.is_sent:
            self._tokens.wait(self)

    def wake(self, _token: bytes) -> None:
        """Take a token: the process hears of it when the call that left it has ended."""
        self.is_sent = False
        self._shard.master.bells.append(self._rings)

    def end(self, seconds: float, on_reply: Callable[[], object]) -> None:
        """End the wait by a call, sent after ``seconds``; a token that comes sooner is kept."""
        master, simulation = self._shard.master, self._shard.at.simulation

        def leave() -> None:
            self.is_sent = False
            self._tokens.leave(self)
            master.bells.append(on_reply)

        arrives = simulation.now + seconds + ROUND_TRIP_SECONDS / 2
        simulation.at(arrives, partial(master.arrive, leave, self._price))

    @property
    def _price(self) -> float:
        return self._shard.price["wait and unblock"] / 2

    @property
    def _tokens(self) -> Any:
        return self._shard.engine._database.tokens  # type: ignore[attr-defined]


class Wait:
    """A process's wait for tokens on all shards, which goes on while it is busy.

    One that a token ends is ended on all other shards at the same time, before the process claims:
    so do the waiters of Redis.
    """

    def __init__(self, cluster: Cluster, wake: Callable[[], object]) -> None:
        self._wake, self._own_seconds = wake, cluster.setting.prices.client_end
        self._replies = 0
        self.woken: set[int] = set()
        self._bells = [Bell(each, partial(self._rung, n)) for n, each in enumerate(cluster.shards)]

    def arm(self) -> None:
        """Wait on all shards."""
        for bell in self._bells:
            bell.send()

    def _rung(self, number: int) -> None:
        self.woken.add(number)
        self._wake()

    def end(self) -> frozenset[int]:
        """Wait no longer; return which shards have woken the process."""
        left = [bell for bell in self._bells if bell.is_sent]
        process, self._replies = getcurrent(), len(left)

        def on_reply() -> None:
            self._replies -= 1
            if self._replies == 0:
                process.switch()

        for number, bell in enumerate(left):
            bell.end(number * self._own_seconds, on_reply)
        if left:
            stop()
        woken, self.woken = frozenset(self.woken), set()
        return woken
