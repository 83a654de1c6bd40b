"""What an admission costs, counted in commands, whatever waits beside it or has expired."""

from __future__ import annotations

from functools import partial

import pytest
import redis

from fairqueue import Limits
from fairqueue._stores import replies
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.testing import ManualClock
from tests.redis.counting import commands

MOST = 20
PAGE = 32
MOST_OF_A_TICKET = 8


@pytest.fixture
def store(redis_client: redis.Redis, namespace: str, clock: ManualClock) -> Store:
    """A store on Redis."""
    return Store(RedisEngine(redis_client, namespace=namespace), clock=clock)


def admit(store: Store, workspace: str, number: int, owner: str = "p") -> str:
    ticket = replies.ticket(owner, workspace, number)
    return store.admit_request(ticket, lease_seconds=30.0, waiting_most=9).state


def test_waiting_workspaces_at_their_limit_cost_nothing(
    redis_client: redis.Redis, store: Store
) -> None:
    """Beside 300 of them, an admission and an end of another workspace look at none."""
    for n in range(300):
        store.set_limits("workspace", f"w{n}", Limits(requests=1))
        assert admit(store, f"w{n}", 1) == "in_flight"
        assert admit(store, f"w{n}", 2) == "waits"
    admit(store, "other", 1)
    cost = commands(redis_client, lambda: admit(store, "other", 2))
    assert sum(cost.values()) < MOST
    ended = replies.ticket("p", "other", 2)
    assert sum(commands(redis_client, lambda: store.end_request(ended)).values()) < MOST


@pytest.mark.parametrize("n", [100, 1000])
def test_expired_tickets_are_dropped_page_by_page(
    redis_client: redis.Redis, store: Store, clock: ManualClock, n: int
) -> None:
    """No admission drops all that a process has left, and those that follow drop the rest."""
    for number in range(n):
        admit(store, "a", number, "dead")
    clock.advance(31)
    calls = 0
    while store.count_requests("a")[1]:
        calls += 1
        cost = commands(redis_client, partial(admit, store, "b", calls))
        assert sum(cost.values()) < MOST_OF_A_TICKET * PAGE + MOST
    assert calls == -(-n // PAGE)
