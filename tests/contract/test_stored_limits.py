"""Limits that are stored stay until another value is named, and say when and by whom they were."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from fairqueue import FairQueue, Limits, Pause, Scope
from fairqueue._stores.store import Store
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
