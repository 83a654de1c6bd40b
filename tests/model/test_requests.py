"""Random requests of web processes on both engines and on a model, compared after every step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
import redis

from fairqueue import Limits
from fairqueue._stores import replies
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue._types import AdmittedRequest
from fairqueue.audit import audit
from fairqueue.testing import ManualClock

STEPS = 400
STEPS_BETWEEN_CHECKS = 5
LEASE_SECONDS = 30.0
WORKSPACES = ("a", "b", "c: {*}\n/")
OWNERS = ("p1", "p 2")
WEIGHTS = (0.5, 1.0, 3.0)
COUNTS = (None, 0, 1, 2, 3, 6)
Ticket = tuple[str, str, int]


@dataclass
class Model:
    """What the law says, without bounds on the steps of a call: there are never that many."""

    most: dict[str, int | None] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    in_flight: set[Ticket] = field(default_factory=set)
    waiting: dict[str, list[Ticket]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    expires: dict[str, float] = field(default_factory=dict)
    given: int = 0

    def used(self, workspace: str) -> int:
        return sum(of == workspace for _, of, _ in self.in_flight)

    def full(self, workspace: str) -> tuple[str, int, int] | None:
        for scope, used in (("workspace", self.used(workspace)), ("total", len(self.in_flight))):
            most = self.most.get(workspace if scope == "workspace" else "")
            if most is not None and used >= most:
                return scope, most, used
        return None

    def turn(self) -> int:
        self.given += 1
        return self.given

    def settle(self, workspace: str) -> None:
        if workspace in self.turns and not self.waiting.get(workspace):
            del self.turns[workspace]
            self.waiting.pop(workspace, None)
        if not self.turns:
            self.given = 0

    def start_waiting(self) -> None:
        while True:
            total = self.most.get("")
            open_ones = [
                (((self.used(name) + 1) / self.weights.get(name, 1.0)), turn, name)
                for name, turn in self.turns.items()
                if self.most.get(name) is None or self.used(name) < (self.most[name] or 0)
            ]
            if not open_ones or (total is not None and len(self.in_flight) >= total):
                return
            name = min(open_ones)[2]
            self.in_flight.add(self.waiting[name].pop(0))
            self.turns[name] = self.turn()
            self.settle(name)

    def known(self, owner: str) -> list[Ticket]:
        tickets = [*self.in_flight, *(each for many in self.waiting.values() for each in many)]
        return [each for each in tickets if each[0] == owner]

    def drop(self, ticket: Ticket) -> None:
        self.in_flight.discard(ticket)
        waiting = self.waiting.get(ticket[1], [])
        if ticket in waiting:
            waiting.remove(ticket)
        if not self.known(ticket[0]):
            self.expires.pop(ticket[0], None)
        self.settle(ticket[1])

    def expire(self, now: float) -> None:
        for owner in [name for name, at in self.expires.items() if at <= now]:
            for ticket in self.known(owner):
                self.drop(ticket)

    def admit(self, ticket: Ticket, now: float, waiting_most: int) -> AdmittedRequest:
        owner, workspace, _ = ticket
        self.expire(now)
        if self.turns:
            self.settle(workspace)
            self.start_waiting()
        if ticket in self.in_flight:
            return AdmittedRequest("in_flight")
        if ticket in self.known(owner):
            return AdmittedRequest("waits")
        full, waiting = self.full(workspace), len(self.waiting.get(workspace, []))
        if full is None and waiting == 0:
            self.expires.setdefault(owner, now + LEASE_SECONDS)
            self.in_flight.add(ticket)
            return AdmittedRequest("in_flight")
        if waiting >= waiting_most:
            return AdmittedRequest("rejected", *(full or ("workspace", 0, 0)))
        self.expires.setdefault(owner, now + LEASE_SECONDS)
        self.waiting.setdefault(workspace, []).append(ticket)
        self.turns.setdefault(workspace, self.turn())
        self.settle(workspace)
        self.start_waiting()
        if ticket in self.in_flight:
            return AdmittedRequest("in_flight")
        scope, *_ = self.full(workspace) or ("",)
        return AdmittedRequest("waits", scope)

    def end(self, ticket: Ticket, now: float) -> bool:
        was_known = ticket in self.known(ticket[0])
        if was_known:
            self.drop(ticket)
        self.expire(now)
        self.start_waiting()
        return was_known

    def renew(self, owner: str, tickets: list[Ticket], now: float) -> int:
        for ticket in tickets:
            if ticket not in self.in_flight:
                if ticket in self.waiting.get(ticket[1], []):
                    self.waiting[ticket[1]].remove(ticket)
                self.expires.setdefault(owner, now + LEASE_SECONDS)
                self.in_flight.add(ticket)
                self.settle(ticket[1])
        known = len(self.known(owner))
        if known:
            self.expires[owner] = now + LEASE_SECONDS
        self.expire(now)
        self.start_waiting()
        return known


class Play:
    """Random moves of one seed."""

    def __init__(self, client: redis.Redis, namespace: str, seed: int) -> None:
        self.random, self.clock, self.model = random.Random(seed), ManualClock(), Model()
        engines = MemoryEngine(namespace=namespace), RedisEngine(client, namespace=namespace)
        self.stores = [Store(engine, clock=self.clock) for engine in engines]
        self.tickets: list[Ticket] = []
        self.seen: set[str] = set()

    def both(self, name: str, *args: object, **options: object) -> object:
        one, other = (getattr(store, name)(*args, **options) for store in self.stores)
        assert one == other
        return one

    def step(self) -> None:
        moves = [self.ask] * 6 + [self.end] * 5 + [self.renew] * 2 + [self.advance, self.limit]
        self.random.choice(moves)()
        for workspace in WORKSPACES:
            wanted = (
                len(self.model.in_flight),
                self.model.used(workspace),
                len(self.model.waiting.get(workspace, [])),
            )
            assert self.both("count_requests", workspace) == wanted

    def check(self) -> None:
        for store in self.stores:
            found = audit(store.engine, now=self.clock())
            assert [each for each in found if each.invariant != "I2"] == []

    def ask(self) -> None:
        new = (self.random.choice(OWNERS), self.random.choice(WORKSPACES), len(self.tickets))
        ticket = self.random.choice([new, *self.tickets[-12:]])
        if ticket == new:
            self.tickets.append(new)
        most = self.random.choice((0, 1, 3))
        reply = self.both(
            "admit_request",
            replies.ticket(*ticket),
            lease_seconds=LEASE_SECONDS,
            waiting_most=most,
        )
        assert reply == self.model.admit(ticket, self.clock(), most)
        self.seen.add(reply.state)

    def end(self) -> None:
        if self.tickets:
            ticket = self.random.choice(self.tickets[-12:])
            ended = self.both("end_request", replies.ticket(*ticket))
            assert ended == self.model.end(ticket, self.clock())

    def renew(self) -> None:
        owner = self.random.choice(OWNERS)
        mine = [each for each in self.tickets[-6:] if each[0] == owner]
        named = self.random.sample(mine, min(len(mine), self.random.choice((0, 0, 1, 2))))
        texts = [replies.ticket(*each) for each in named]
        known = self.both("renew_requests", owner, lease_seconds=LEASE_SECONDS, tickets=texts)
        assert known == self.model.renew(owner, named, self.clock())

    def advance(self) -> None:
        self.clock.advance(self.random.choice((0.5, 5.0, 20.0, 31.0)))

    def limit(self) -> None:
        """Change limits; those concerned ask again at once, as their next calls would."""
        name = self.random.choice(("", *WORKSPACES))
        most, weight = self.random.choice(COUNTS), self.random.choice(WEIGHTS)
        self.model.most[name] = most
        if name:
            self.model.weights[name] = weight
            limits = Limits(requests=most, weight=weight)
            self.both("set_limits", "workspace", name, None)
            self.both("set_limits", "workspace", name, limits)
        else:
            self.both("set_limits", "total", "", None)
            if most is not None:
                self.both("set_limits", "total", "", Limits(requests=most))
        waiting = self.model.waiting.get(name)
        if waiting:
            ticket = waiting[0]
            reply = self.both(
                "admit_request", replies.ticket(*ticket), lease_seconds=30.0, waiting_most=0
            )
            assert reply == self.model.admit(ticket, self.clock(), 0)


@pytest.mark.parametrize("seed", range(6))
def test_random_requests_follow_the_law(
    redis_client: redis.Redis, namespace: str, seed: int
) -> None:
    """Both engines answer as the model does, and every invariant holds."""
    play = Play(redis_client, namespace, seed)
    for number in range(STEPS):
        play.step()
        if number % STEPS_BETWEEN_CHECKS == 0:
            play.check()
    assert play.seen == {"in_flight", "waits", "rejected"}
