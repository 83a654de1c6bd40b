"""What each shard stores of their number, and which of that a process believes."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import ConfigurationError, Scope
from fairqueue._shards.placement import shard_of
from fairqueue._stores.layout import Mark, mark_of
from fairqueue._stores.sharded import mover
from tests.shards.conftest import Namespace
from tests.shards.test_reshard import FROM, NAMES, TO
from tests.shards.test_reshard_holds import asleep, moving, places


def test_a_shard_that_was_dropped_is_not_believed(processes: Namespace) -> None:
    """It keeps the mark of the change by which it went, and none after that concerns it."""
    queue, old = processes.open(4), processes.open(4)
    assert queue.doctor.reshard(2).is_done
    assert processes.open(2).doctor.reshard(3).is_done
    store: Any = old.store
    store._look(store.shards[::-1])  # the dropped ones first
    name = next(n for n in NAMES if shard_of(n, 2) != shard_of(n, 3))
    old.publish(b"", queue="q", workspace=name)
    assert store.layout.mark == Mark(3, 2)
    assert places(processes) == {2: 1}


@pytest.mark.parametrize("has_capacity", [False, True])
def test_a_publisher_slept_until_the_number_goes_back(
    processes: Namespace, monkeypatch: pytest.MonkeyPatch, *, has_capacity: bool
) -> None:
    """It says the number that will be, but of the time before: its workspace has yet to move."""
    name = moving()
    queue, late = processes.open(FROM), processes.open(FROM)
    if has_capacity:
        queue.limits.set(Scope.default(), capacity=100)
    queue.publish(b"", queue="q", workspace=name, task="t")
    asleep(late)
    assert queue.doctor.reshard(TO).is_done
    move_all, found = mover.Mover._move_all, dict[int, int]()

    def meanwhile(self: mover.Mover, moved: mover.Moved) -> None:
        late.publish(b"", queue="q", workspace=name, task="t")
        found.update(places(processes))
        monkeypatch.setattr(mover.Mover, "_move_all", move_all)
        move_all(self, moved)

    monkeypatch.setattr(mover.Mover, "_move_all", meanwhile)
    assert queue.doctor.reshard(FROM).is_done
    assert found == {shard_of(name, TO): 2}
    assert places(processes) == {shard_of(name, FROM): 2}


@pytest.mark.parametrize("lost", [None, str(FROM)], ids=["its data", "its newest writes"])
def test_a_shard_that_has_lost_its_mark_misleads_none(
    processes: Namespace, lost: str | None
) -> None:
    """Others know better, and give it theirs if it has none, or refuses a publish."""
    queue = processes.open(FROM)
    assert queue.doctor.reshard(TO).is_done
    engine = processes.shard(0).engine
    at = engine.keys.key("shard"), "shards"
    engine.command(*(("HDEL", *at) if lost is None else ("HSET", *at, lost)))
    engine.command("HDEL", at[0], "settings")
    name = next(n for n in NAMES if shard_of(n, FROM) == 0 != shard_of(n, TO))
    queue.publish(b"", queue="q", workspace=name)
    new = processes.open(TO)
    new.publish(b"", queue="q", workspace=name)
    assert places(processes) == {shard_of(name, TO): 2}
    assert mark_of(engine) == (Mark(TO, 1) if lost is None else Mark(FROM))
    for home in range(TO):
        own = next(n for n in NAMES if shard_of(n, TO) == home)
        queue.publish(b"", queue="q", workspace=own)
    assert mark_of(engine) == Mark(TO, 1)
    with pytest.raises(ConfigurationError, match=f"are on {TO} shards"):
        processes.open(FROM)


def test_a_namespace_that_was_emptied_begins_again(processes: Namespace) -> None:
    """By a process that runs, too: what it knew is older than that."""
    queue = processes.open(FROM)
    assert queue.doctor.reshard(TO).is_done
    for n in range(TO):
        engine = processes.shard(n).engine
        for entry in list(engine.dump()):
            engine.command("UNLINK", entry.key)
    processes.open(2)
    queue.publish(b"", queue="q", workspace=NAMES[0])
    assert places(processes) == {shard_of(NAMES[0], 2): 1}
