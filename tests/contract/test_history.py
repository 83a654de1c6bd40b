"""The short history: samples of what ran and waited, of bounded size."""

from __future__ import annotations

import pytest

from fairqueue.audit import audit
from fairqueue.operate import Operators
from fairqueue.rows import WorkspaceSample
from tests.contract.world import World

ODD = "a b|c\n%:{1}"


def test_a_sample_has_what_runs_and_waits(world: World, admin: Operators) -> None:
    """Of each workspace and of all, with the time at which it was taken."""
    world.publish_many(3, ODD)
    world.worker().take(1)
    world.clock.advance(5)
    assert admin.views.note_sample()
    (sample,) = admin.views.history()
    assert (sample.running, sample.queued) == (1, 2)
    assert sample.time == pytest.approx(world.clock(), abs=0.01)
    assert sample.oldest_wait_seconds == pytest.approx(5, abs=0.1)
    (row,) = sample.workspaces
    assert row == WorkspaceSample(ODD, 1, 2, row.oldest_wait_seconds)
    assert audit(world.store.engine) == []


def test_without_a_dashboard_there_is_no_history(admin: Operators) -> None:
    """Nothing else takes samples."""
    assert admin.views.history() == []


def test_of_several_samplers_one_is_kept(world: World, admin: Operators) -> None:
    """A sample within half a minute of the last one is dropped."""
    assert admin.views.note_sample()
    world.clock.advance(29)
    assert not admin.views.note_sample()
    world.clock.advance(1)
    assert admin.views.note_sample()
    assert len(admin.views.history()) == 2


def test_the_history_is_an_hour_long(world: World, admin: Operators) -> None:
    """Of more samples the oldest go."""
    for _ in range(125):
        admin.views.note_sample()
        world.clock.advance(30)
    times = [sample.time for sample in admin.views.history()]
    assert len(times) == 120
    assert times == sorted(times)
    assert world.clock() - times[0] == pytest.approx(3600, abs=1)


def test_the_history_is_bounded_whatever_the_names(world: World, admin: Operators) -> None:
    """Long names cost old samples, and not memory; many workspaces are not all in a sample."""
    for n in range(40):
        world.publish(f"{n:03}" + "\x01" * 190)
    for _ in range(30):
        admin.views.note_sample()
        world.clock.advance(30)
    stored = world.store.engine.command("GET", world.store.engine.keys.key("history"))
    assert 200_000 < len(stored) <= 262_144
    assert {len(sample.workspaces) for sample in admin.views.history()} == {12}


@pytest.mark.parametrize("damage", ["nonsense", "1 2", "1 2 3 -|a", "|x 1 1 -", "1 x 3 -"])
def test_a_damaged_sample_is_left_out(world: World, admin: Operators, damage: str) -> None:
    """The others are there, the next one is taken, and the auditor names it."""
    world.publish()
    admin.views.note_sample()
    engine = world.store.engine
    key = engine.keys.key("history")
    good = engine.command("GET", key)
    engine.command("SET", key, damage.encode() + b"\n" + good, "PX", 7_200_000)
    assert len(admin.views.history()) == 1
    assert [finding.invariant for finding in audit(engine)] == ["I11"]
    world.clock.advance(1e6)
    assert admin.views.note_sample()
    assert len(admin.views.history()) == 2


def test_a_snapshot_has_the_weight(world: World) -> None:
    """The share that a workspace is due depends on it."""
    world.limit("a", weight=2.5)
    world.publish("a")
    world.publish("b")
    assert (world.row("a").weight, world.row("b").weight) == (2.5, 1.0)
