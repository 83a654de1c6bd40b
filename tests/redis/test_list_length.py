"""No page of a list is long, and no list is read that was not asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
import redis

from fairqueue import Pause, Scope, Settings
from fairqueue._stores.redis import RedisEngine
from fairqueue._stores.store import Store
from fairqueue.operate import Operators
from fairqueue.testing import ManualClock
from tests.contract.world import World
from tests.redis.counting import Costs, commands

MOST_CLAIMS = 30
"""How many plain claims one page may cost."""


@pytest.fixture
def world(world: World) -> World:
    """600 workspaces, queues, tasks, running jobs, workers and pauses, and a long lane."""
    for n in range(600):
        for _ in range(2):
            world.publish(f"w{n}", queue=f"q{n}", task=f"t{n}")
        world.worker(f"o{n}").take_one(f"q{n}")
        world.store.heartbeat(f"o{n}", f"celery@{n}", "")
        world.store.pause("workspace", f"w{n}", Pause.PAUSED)
    world.publish_many(600)
    for n in range(300):
        world.publish(delay_seconds=n + 1)
    return world


def _calls(ran: dict[str, int]) -> int:
    return ran.get("fcall", 0) + ran.get("evalsha", 0)


@pytest.mark.parametrize("by", ["owner", "task"])
def test_leases_are_read_in_few_calls(
    world: World, costs: Costs, by: Literal["owner", "task"]
) -> None:
    """600 of them in some pages, and of each page only what is shown."""
    store = world.store
    ran = costs.of(lambda: store.running(10))
    assert _calls(ran) <= 4
    assert "zscore" not in ran
    assert _calls(costs.of(lambda: list(store.held(by)))) <= 4
    assert len(store.running(10).jobs) == 10


def test_no_page_of_a_list_is_long(world: World, costs: Costs) -> None:
    """Each costs at most 30 plain claims, in commands."""
    admin = Operators(lambda: world.store, Settings())
    lists: dict[str, Callable[[], object]] = {
        "running": admin.views.running,
        "waiting": lambda: admin.views.waiting(n=1000),
        "waiting of a workspace": lambda: admin.views.waiting(workspace="a", n=1000),
        "queues": admin.views.queues,
        "tasks": admin.views.tasks,
        "workers": admin.views.workers,
        "pauses": admin.pauses.list,
        "activity": admin.activity.table,
        "overview": admin.views.overview,
        "everything": lambda: admin.views.overview(everything=True),
        "names": lambda: admin.views.hint(
            Scope.workspace("none"), Scope.queue("none"), Scope.task("none")
        ),
        "limits": admin.limits.list,
        "why": lambda: admin.views.why(workspace="a"),
        "a workspace": lambda: admin.views.overview(workspaces=["w1"]),
    }
    worker = world.worker("one")
    worker.take_one()
    claim = costs.total(worker.take_one)
    pages = {name: costs.longest_page(read) for name, read in lists.items()}
    assert {name: n for name, n in pages.items() if n > MOST_CLAIMS * claim} == {}
    assert len(admin.views.running(n=1000).jobs) == 602
    assert len(admin.views.workers()) == 601
    assert len(admin.pauses.list()) == 600


def test_an_overview_costs_the_same_beside_more_workspaces(
    redis_client: redis.Redis,
    namespace: str,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond the number up to which all are looked at, it runs no more commands."""
    monkeypatch.setattr("fairqueue.operate.views.ALL_UP_TO", 50)
    monkeypatch.setattr("fairqueue.operate.views.SAMPLED", 100)
    counts = []
    for crowd in (300, 900):
        engine = RedisEngine(redis_client, namespace=f"{namespace}-{crowd}")
        world = World(Store(engine, clock=clock), clock)
        for n in range(crowd):
            world.publish(f"w{n}")
        counts.append(_cost_of_an_overview(redis_client, world.store))
    assert abs(counts[0] - counts[1]) < 60  # how many of the sampled jobs share a workspace


def _cost_of_an_overview(client: redis.Redis, store: Store) -> int:
    admin = Operators(lambda: store, Settings())
    admin.views.overview(top=10)
    return sum(commands(client, lambda: admin.views.overview(top=10)).values())
