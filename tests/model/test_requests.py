"""Random requests of web processes on both engines: what must hold after each step does."""

from __future__ import annotations

import random
from typing import Any

import pytest
import redis

from fairqueue import Limits
from fairqueue._stores import replies
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.audit import audit
from fairqueue.testing import ManualClock

STEPS = 300
STEPS_BETWEEN_CHECKS = 5
LEASE_SECONDS = 30.0
WORKSPACES = ("a", "b", "c: {*}\n/")
WEIGHTS = (0.5, 1.0, 3.0)
COUNTS = (0, 1, 2, 3, 6)
MANY = 1000


class Play:
    """Random moves of one seed."""

    def __init__(self, client: redis.Redis, namespace: str, seed: int) -> None:
        self.random, self.clock = random.Random(seed), ManualClock()
        engines = MemoryEngine(namespace=namespace), RedisEngine(client, namespace=namespace)
        self.stores = [Store(engine, clock=self.clock) for engine in engines]
        self.most = dict.fromkeys(("", *WORKSPACES), MANY)
        self.weights = dict.fromkeys(WORKSPACES, 1.0)
        self.tickets: list[str] = []
        self.seen: set[str] = set()

    def both(self, name: str, *args: object, **options: object) -> Any:
        one, other = (getattr(store, name)(*args, **options) for store in self.stores)
        assert one == other
        return one

    def counts(self) -> dict[str, tuple[int, int]]:
        """What is in flight and waits, by workspace."""
        return {name: self.both("count_requests", name)[1:] for name in WORKSPACES}

    def step(self) -> None:
        moves = [self.ask] * 6 + [self.end] * 5 + [self.renew] * 2 + [self.advance, self.limit]
        self.random.choice(moves)()

    def check(self) -> None:
        for store in self.stores:
            found = audit(store.engine, now=self.clock())
            assert [each for each in found if each.invariant != "I2"] == []

    def ask(self) -> None:
        self.ask_with(self.random.choice([self.new(self.random.choice(WORKSPACES)), *self.last]))

    @property
    def last(self) -> list[str]:
        return self.tickets[-12:]

    def new(self, workspace: str) -> str:
        return replies.ticket("p", workspace, len(self.tickets))

    def ask_with(self, ticket: str) -> None:
        """No admission is above a limit, and none leaves a place free beside one that waits."""
        if ticket not in self.tickets:
            self.tickets.append(ticket)
        before = self.counts()
        reply = self.both(
            "admit_request",
            ticket,
            lease_seconds=LEASE_SECONDS,
            waiting_most=self.random.choice((0, 1, 3)),
        )
        self.seen.add(reply.state)
        after = self.counts()
        self.check_places(before, after)
        if reply.state != "in_flight":
            assert not self.may_start(after)

    def check_places(
        self, before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]
    ) -> None:
        for name, (used, _) in after.items():
            assert used <= max(self.most[name], before[name][0])
        in_all = sum(used for used, _ in before.values())
        assert sum(used for used, _ in after.values()) <= max(self.most[""], in_all)

    def may_start(self, counts: dict[str, tuple[int, int]]) -> dict[str, float]:
        """The shares of workspaces of which a request waits that may start now."""
        if sum(used for used, _ in counts.values()) >= self.most[""]:
            return {}
        return self.turns(counts)

    def turns(self, counts: dict[str, tuple[int, int]]) -> dict[str, float]:
        return {
            name: (used + 1) / self.weights[name]
            for name, (used, waiting) in counts.items()
            if waiting and used < self.most[name]
        }

    def end(self) -> None:
        """The place goes to the workspace with the fewest in flight by weight."""
        if not self.tickets:
            return
        ticket, before = self.random.choice(self.last), self.counts()
        name = replies.workspace_of_ticket(ticket)
        self.both("end_request", ticket)
        after = self.counts()
        started = [each for each in WORKSPACES if after[each][1] < before[each][1]]
        if sum(before[name]) - sum(after[name]) == 1 and before[name][1] == after[name][1]:
            used, waiting = before[name]
            turns = self.turns({**before, name: (used - 1, waiting)})
            assert [turns[each] for each in started] in ([], [min(turns.values(), default=0)])

    def renew(self) -> None:
        named = self.random.sample(self.tickets[-6:], min(len(self.tickets), 2))
        self.both("renew_requests", named, lease_seconds=LEASE_SECONDS)

    def advance(self) -> None:
        self.clock.advance(self.random.choice((0.5, 5.0, 20.0, 31.0)))

    def limit(self) -> None:
        """It reaches those that wait with the next ask of their workspace."""
        name, most = self.random.choice(("", *WORKSPACES)), self.random.choice(COUNTS)
        self.most[name] = most
        if name:
            self.weights[name] = self.random.choice(WEIGHTS)
            limits = Limits(requests=most, weight=self.weights[name])
            self.both("set_limits", "workspace", name, limits)
            self.ask_with(self.new(name))
        else:
            self.both("set_limits", "total", "", Limits(requests=most))


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_follow_the_law(
    redis_client: redis.Redis, namespace: str, seed: int
) -> None:
    """Both engines answer alike, and every invariant holds."""
    play = Play(redis_client, namespace, seed)
    for number in range(STEPS):
        play.step()
        if number % STEPS_BETWEEN_CHECKS == 0:
            play.check()
    assert play.seen == {"in_flight", "waits", "rejected"}
