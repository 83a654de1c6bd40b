"""Web requests in all over several shards: never more are in flight, wherever workspaces live."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from fairqueue import FairQueue, Limits, Settings
from fairqueue._shards import shard_of
from fairqueue._stores import replies
from fairqueue._stores.memory import MemoryEngine
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.sharded.quotas import Quotas
from fairqueue._types import AdmittedRequest, StoredLimits
from fairqueue.audit import audit
from fairqueue.errors import RequestRejected
from tests.shards.conftest import SHARDS, Both

HOMES = [
    next(name for name in map("w{}".format, count()) if shard_of(name, SHARDS) == number)
    for number in range(SHARDS)
]
TOTAL = "requests:total:"


class Web:
    """A web process that names its tickets by their workspaces."""

    def __init__(self, store: ShardedStore) -> None:
        self.store = store
        self.held: list[str] = []
        self._numbers = count(1)

    def ask(self, workspace: str, *, waiting_most: int = 0) -> AdmittedRequest:
        """Ask for a place."""
        self.ticket = replies.ticket("p", workspace, next(self._numbers))
        reply = self.again(self.ticket, waiting_most=waiting_most)
        if reply.state != "rejected":
            self.held.append(self.ticket)
        return reply

    def again(self, ticket: str, *, waiting_most: int = 9) -> AdmittedRequest:
        return self.store.admit_request(ticket, lease_seconds=30, waiting_most=waiting_most)

    def end(self, ticket: str) -> None:
        self.held.remove(ticket)
        assert self.store.end_request(ticket)

    @property
    def in_flight(self) -> int:
        return self.store.count_requests(HOMES[0])[0]


@pytest.fixture
def web(both: Both) -> Iterator[Web]:
    """A process of three shards, in which every invariant holds at the end."""
    yield Web(both.sharded)
    for shard in both.sharded.shards:
        assert audit(shard.engine, now=both.clock()) == []


@pytest.fixture
def quotas(both: Both) -> Quotas:
    """What moves them, by the clock of the test."""
    return Quotas(lambda: both.sharded.shards, clock=both.clock)


def test_places_go_where_requests_are(web: Web) -> None:
    """All of them at once, also for one workspace; a rejection tells the whole."""
    web.store.set_limits("total", "", Limits(requests=4))
    for _ in range(4):
        assert web.ask(HOMES[0]).state == "in_flight"
    for name in HOMES:
        reply = web.ask(name)
        assert (reply.state, reply.scope, reply.limit) == ("rejected", "total", 4)
    assert reply.in_flight == 4


def test_a_place_that_is_free_anywhere_is_given_at_once(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One place goes from shard to shard, as requests end and come."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    web.store.set_limits("total", "", Limits(requests=1))
    for name in HOMES * 3:
        assert web.ask(name).state == "in_flight"
        assert web.ask(HOMES[1]).state == "rejected"
        web.end(web.held[0])


def test_one_that_waits_gets_a_place_that_is_free_elsewhere(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once when it begins to wait; its workspace's own limit is not the total's."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    web.store.set_limits("total", "", Limits(requests=3))
    web.store.set_limits("workspace", HOMES[1], Limits(requests=1))
    states = [web.ask(HOMES[0], waiting_most=9).state for _ in range(4)]
    assert states == ["in_flight", "in_flight", "in_flight", "waits"]
    web.end(web.held[0])
    assert web.again(web.held[-1]).state == "in_flight"
    web.end(web.held[0])
    assert web.ask(HOMES[1], waiting_most=9).state == "in_flight"
    assert web.ask(HOMES[1], waiting_most=9).scope == "workspace"


def test_those_that_wait_share_places(
    web: Web, both: Both, quotas: Quotas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places go round where requests always wait; one that comes takes none of those that wait."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    web.store.set_limits("total", "", Limits(requests=1))
    started: dict[str, int] = dict.fromkeys(HOMES, 0)
    waiting: dict[str, list[str]] = {name: [] for name in HOMES}
    running: list[str] = []
    for _ in range(120):
        for name, tickets in waiting.items():
            while len(tickets) < 2:
                web.ask(name, waiting_most=9)
                tickets.append(web.ticket)
            for ticket in [each for each in tickets if web.again(each).state == "in_flight"]:
                tickets.remove(ticket)
                running.append(ticket)
                started[name] += 1
        assert len(running) <= 1
        assert web.in_flight == len(running)
        both.clock.advance(0.5)
        web.store.renew_requests(running, lease_seconds=30)
        quotas.move()
        while running:
            web.end(running.pop())
    assert sum(started.values()) > 60
    assert min(started.values()) >= 0.7 * max(started.values())


def test_a_lowered_total_drains(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is stopped, and none starts until fewer are in flight than it lets."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    web.store.set_limits("total", "", Limits(requests=6))
    for name in HOMES * 2:
        assert web.ask(name).state == "in_flight"
    web.store.set_limits("total", "", Limits(requests=3))
    while web.in_flight > 3:
        assert [web.ask(name).state for name in HOMES] == ["rejected"] * 3
        web.end(web.held[0])
    assert [web.ask(name).state for name in HOMES] == ["rejected"] * 3
    web.end(web.held[0])
    assert [web.ask(name).state for name in HOMES].count("in_flight") == 1
    web.store.set_limits("total", "", None)
    assert [web.ask(name).state for name in HOMES] == ["in_flight"] * 3
    for ticket in list(web.held):
        web.end(ticket)


def test_people_see_the_whole_total(web: Web) -> None:
    """As it was set."""
    web.store.set_limits("total", "", Limits(requests=5, concurrency=9))
    assert web.store.get_limits("total", "")[0].limits == Limits(requests=5, concurrency=9)
    [row] = [row for page in web.store.stored_limits() for row in page]
    assert row.limits == {"requests": 5, "concurrency": 9}


def test_a_total_that_is_only_observed_holds_nothing_back(web: Web) -> None:
    """It is counted, as on one shard."""
    stored = StoredLimits(total=Limits(requests=1), enforced=False)
    web.store.configure(stored, authoritative=True)
    assert [web.ask(name).state for name in HOMES * 2] == ["in_flight"] * 6
    observed = [
        web.store.why(workspace=name, job_id=None, queue=None).observed or {} for name in HOMES
    ]
    assert sum(each.get("requests.total", 0) for each in observed) == 5


def moves(queue: FairQueue) -> bool:
    """Whether a process takes part in moving quotas."""
    return queue._quota_mover._stopped is not None


def test_a_process_without_workers_moves_places_once_they_are_short(both: Both) -> None:
    """Else those that wait on one shard would wait for a worker."""
    queue = FairQueue(store=both.sharded, settings=Settings(total_requests=1))
    queue.connect()
    with queue.requests.admit(HOMES[0]):
        assert not moves(queue)
        with suppress(RequestRejected):
            queue.requests.admit(HOMES[1])
        assert moves(queue)
    queue.close()


class _Died(BaseException):
    """The process that moved quotas is no more."""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("both", ["memory"], indirect=True)
def test_no_more_are_in_flight_if_a_process_dies(
    web: Web, both: Both, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of a move, for one request or of all; and all places come back."""
    monkeypatch.setattr("fairqueue._stores.sharded.quotas.NO_ROOM_SECONDS", 0)
    rng, dies, call = random.Random(seed), [False], MemoryEngine.call
    mine = [shard.engine for shard in both.sharded.shards]  # other tests' may still be alive

    def failing(engine: MemoryEngine, operation: str, /, **arguments: Any) -> Any:
        fails = dies[0] and engine in mine and "quota" in operation and rng.random() < 0.1
        if fails and rng.random() < 0.5:
            raise _Died
        reply = call(engine, operation, **arguments)
        if fails:
            raise _Died
        return reply

    web.store.set_limits("total", "", Limits(requests=4))
    monkeypatch.setattr(MemoryEngine, "call", failing)
    for _ in range(150):
        both.clock.advance(0.1)
        dies[0] = True
        with suppress(_Died):
            if rng.random() < 0.4:
                Quotas(lambda: both.sharded.shards, clock=both.clock).move()
            else:
                web.ask(rng.choice(HOMES), waiting_most=rng.choice([0, 5]))
        dies[0] = False
        assert web.in_flight <= 4
        if web.held and rng.random() < 0.4:
            web.end(rng.choice(web.held))
    both.clock.advance(31)
    both.sharded.reap(max_deliveries=None)
    assert [web.ask(HOMES[seed % SHARDS]).state for _ in range(5)].count("in_flight") == 4
