"""Stored limits stay until another value is named; all are listed with source, time and process."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from fairqueue import FairQueue, Limit, Limits, Pause, Scope, Settings
from fairqueue._stores.store import Store
from fairqueue.adapters import settings_summary
from fairqueue.errors import ConfigurationError
from tests.contract.world import World


@pytest.fixture(autouse=True)
def _every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="fairqueue")


def boot(store: Store, **settings: Any) -> FairQueue:
    """A worker starts."""
    queue = FairQueue(store=store, authoritative=True, **settings)
    queue.connect()
    return queue


def test_a_worker_that_names_no_limit_leaves_what_is_stored(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Also how long dead letters are kept; it says so, and an operator can remove them."""
    boot(world.store, workspace_concurrency=1, tasks={"t": {"concurrency": 5}})
    world.configure(default=Limits(concurrency=1), dead_letter_count=3, authoritative=True)
    caplog.clear()
    queue = boot(world.store)
    assert [text for text in caplog.messages if "names no limit, so those stored" in text]
    assert queue.limits.get(Scope.default())["concurrency"].value == 1
    key = world.store.engine.keys.key("shard")
    assert world.store.engine.command("HEXISTS", key, "retention") == 1
    queue.limits.set(Scope.workspace("a"), weight=2)
    queue.limits.unset_configured()
    assert queue.limits.get(Scope.default()) == {}
    assert queue.limits.get(Scope.workspace("a"))["weight"].source == "live"
    assert world.store.engine.command("HEXISTS", key, "retention") == 0


def test_a_first_worker_is_told_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Neither with limits, where none were stored, nor without; nor by the same ones again."""
    boot(world.store)
    for _ in range(2):
        boot(world.store, workspace_concurrency=1)
    assert caplog.messages == []


def test_a_worker_that_names_another_value_tells_what_it_replaces(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning has old, new, when and by which process, of every limit that changes."""
    odd = "t\x1b"
    boot(
        world.store,
        workspace_concurrency=4,
        total_capacity=100,
        workspaces={"acme": {"weight": 2, "parent": "org\x1b"}},
        tasks={odd: {"concurrency": 5}},
    )
    caplog.clear()
    boot(
        world.store,
        workspace_concurrency=8,
        total_capacity=100,
        tasks={odd: {"rate": 2}},
        queues={"q": {"capacity": 1}},
    )
    (text,) = caplog.messages
    assert "this worker has replaced limits stored in Redis" in text
    stamp = rf" \(stored by \S+:{os.getpid()} at \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)"
    assert re.search(r"the default of workspaces: concurrency 4 → 8" + stamp, text)
    assert re.search(r"workspace 'acme': weight 2.0 → none, parent org\\x1b → none" + stamp, text)
    assert re.search(r"task 't\\x1b': concurrency 5 → none, rate none → 2.0" + stamp, text)
    assert "queue 'q': capacity none → 1;" in text
    assert "total" not in text


def test_of_many_changes_some_are_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """And how many more there are."""
    for weight in (1, 2):
        boot(world.store, workspaces={f"w{n}": {"weight": weight + 1} for n in range(50)})
    (text,) = caplog.messages
    assert text.count(" → ") == 20
    assert text.endswith("; and 30 more")


def test_a_limit_says_when_and_by_which_process_it_was_stored(world: World) -> None:
    """Each source by itself; one that did not change keeps its time."""
    queue = boot(world.store, workspace_concurrency=4, workspaces={"a": {"weight": 2}})
    first = world.clock()
    world.clock.advance(60)
    queue.limits.set(Scope.workspace("a"), capacity=9)
    boot(world.store, workspace_concurrency=5, workspaces={"a": {"weight": 2}})
    found = queue.limits.get(Scope.workspace("a"))
    assert found["weight"].stored_at == pytest.approx(first, abs=0.01)
    assert found["capacity"].stored_at == pytest.approx(first + 60, abs=0.01)
    assert found["concurrency"].stored_at == pytest.approx(first + 60, abs=0.01)
    assert all((limit.stored_by or "").endswith(f":{os.getpid()}") for limit in found.values())


def test_all_limits_are_listed(world: World) -> None:
    """With their scopes, sources and stamps; a provider's have none, and pauses are no limits."""
    queue = boot(
        world.store,
        workspace_concurrency=4,
        queue_capacity=7,
        enforce="observe",
        workspaces={f"w {n}": {"weight": 3} for n in range(150)},
        tasks={"t: *": {"rate": 0.5}},
    )
    queue.limits.set(Scope.total(), concurrency=9)
    world.store.put_provider_limits("p", Limits(concurrency=2))
    world.store.pause("workspace", "a", Pause.PAUSED)
    rows = {(row.scope, row.name, row.source): row for row in queue.limits.list()}
    assert len(rows) == 156
    assert rows["default", "", "configured"].limits == {"concurrency": 4}
    assert rows["queue_default", "", "configured"].limits == {"capacity": 7}
    assert rows["workspace", "w 149", "configured"].limits == {"weight": 3.0}
    assert rows["task", "t: *", "configured"].limits == {"rate": 0.5}
    assert rows["total", "", "live"].limits == {"concurrency": 9}
    assert rows["observe", "", "configured"].limits == {"observe": 1}
    provided = rows["workspace", "p", "limit_provider"]
    assert (provided.limits, provided.stored_at) == ({"concurrency": 2}, None)
    assert rows["total", "", "live"].stored_at == pytest.approx(world.clock(), abs=0.01)
    queue.limits.unset(Scope.total())
    key = world.store.engine.keys.key("stored_by")
    assert b"live:total:" not in world.store.engine.command("HKEYS", key)


@pytest.fixture
def queue(world: World) -> FairQueue:
    """A queue on the same store, without configured limits."""
    return FairQueue(store=world.store, brings_limits=False)


def test_the_stronger_source_is_listed(world: World, queue: FairQueue) -> None:
    """Runtime limits override configured ones and own limits the default, each limit by itself."""
    world.configure(
        default=Limits(concurrency=3, capacity=50),
        workspaces={"a": Limits(concurrency=4, weight=2.0), "b": Limits(parent="org: *")},
    )
    queue.limits.set(Scope.default(), capacity=60)
    queue.limits.set(Scope.workspace("a"), concurrency=5, rate="30/m")
    assert queue.limits.get(Scope.workspace("a")) == {
        "concurrency": Limit(5, "live"),
        "capacity": Limit(60, "live default"),
        "weight": Limit(2.0, "configured"),
        "rate": Limit(0.5, "live"),
    }
    assert queue.limits.get(Scope.workspace("b"))["parent"] == Limit("org: *", "configured")
    assert queue.limits.get(Scope.workspace("c")) == {
        "concurrency": Limit(3, "default"),
        "capacity": Limit(60, "live default"),
    }
    queue.limits.unset(Scope.workspace("a"))
    queue.limits.unset(Scope.default())
    assert queue.limits.get(Scope.workspace("a"))["concurrency"] == Limit(4, "configured")
    assert queue.limits.get(Scope.default())["capacity"] == Limit(50, "configured")


@pytest.mark.parametrize("given", [{}, {"capacity": None}, {"capacity": "none"}, {"burst": ""}])
def test_a_live_limit_without_a_value_removes_no_other(
    queue: FairQueue, given: dict[str, str | None]
) -> None:
    """They are removed by `unset` alone."""
    before = {"concurrency": Limit(5, "live"), "rate": Limit(2.0, "live")}
    queue.limits.set(Scope.workspace("a"), concurrency=5, rate=2)
    with pytest.raises(ConfigurationError, match="'unset' removes"):
        queue.limits.set(Scope.workspace("a"), **given)
    queue.limits.set(Scope.workspace("a"), concurrency=5, capacity=None)
    assert queue.limits.get(Scope.workspace("a")) == before


def test_a_clone_brings_limits_only_if_its_queue_does(world: World) -> None:
    """A tool's queue never stores what it was given, and neither does its clone."""
    given = Settings(workspace_concurrency=3)
    for brings, limits in ((False, {}), (True, {"concurrency": Limit(3, "default")})):
        queue = FairQueue(store=world.store, settings=given, brings_limits=brings)
        queue.clone().publish(b"", queue="q", workspace="a")
        assert queue.limits.get(Scope.workspace("a")) == limits


def test_the_line_of_a_worker_names_the_limits_in_force(world: World, queue: FairQueue) -> None:
    """Those of another process and live ones, too."""
    world.configure(default=Limits(concurrency=2), total=Limits(capacity=50, concurrency=8))
    queue.limits.set(Scope.default(), concurrency=4)
    settings = Settings.load({"queue_capacity": 9, "total_capacity": 50})
    line = settings_summary(FairQueue(store=world.store, settings=settings))
    assert "workspace_concurrency 4 (set live), queue_capacity 9, total_" in line
    assert "total_concurrency 8" in line


def test_the_default_workspace_is_under_no_default(world: World, queue: FairQueue) -> None:
    """The default limits are listed for it only if it has its own limits."""
    world.configure(default=Limits(concurrency=3))
    assert queue.limits.get(Scope.workspace("default")) == {}
    queue.limits.set(Scope.workspace("default"), weight=2.0)
    assert queue.limits.get(Scope.workspace("default"))["concurrency"] == Limit(3, "default")


def test_tasks_queues_and_the_total(world: World, queue: FairQueue) -> None:
    """Limits of tasks, queues and the total are listed with their sources."""
    world.configure(
        tasks={"t": Limits(concurrency=2)},
        queue_default=Limits(capacity=9),
        total=Limits(capacity=99),
    )
    queue.limits.set(Scope.task("t"), rate=2)
    queue.limits.set(Scope.queue("q"), concurrency=7)
    queue.limits.set(Scope.total(), concurrency=70)
    assert queue.limits.get(Scope.task("t")) == {
        "concurrency": Limit(2, "configured"),
        "rate": Limit(2.0, "live"),
    }
    assert queue.limits.get(Scope.task("never")) == {}
    assert queue.limits.get(Scope.queue("q")) == {
        "concurrency": Limit(7, "live"),
        "capacity": Limit(9, "default"),
    }
    assert queue.limits.get(Scope.total()) == {
        "concurrency": Limit(70, "live"),
        "capacity": Limit(99, "configured"),
    }
    for scope in (Scope.total(), Scope.queue("q")):
        queue.limits.unset(scope)
    assert queue.limits.get(Scope.queue("q")) == {"capacity": Limit(9, "default")}
    assert queue.limits.get(Scope.total()) == {"capacity": Limit(99, "configured")}
