"""The last acts of operators, whichever part of a queue did them."""

from __future__ import annotations

import logging

import pytest

from fairqueue import FairQueue, Scope
from fairqueue._connection import Connection
from fairqueue._stores.store import Store
from fairqueue.audit import audit
from fairqueue.errors import ConfigurationError, StoreUnavailable
from fairqueue.operate import Operators
from fairqueue.rows import DeadFilter
from tests.contract.world import World

ODD = "a\nb \x1b|%"


def _told(admin: Operators) -> list[tuple[str, str, str, str]]:
    """The oldest first."""
    return [(act.act, act.of, act.old, act.new) for act in reversed(admin.acts.list())]


def test_acts_are_noted_with_what_was_before(world: World, admin: Operators) -> None:
    """A pause has its previous state, and a limit the value that it replaces."""
    scope = Scope.workspace(ODD)
    admin.pauses.pause(scope)
    admin.pauses.drain(scope)
    admin.pauses.resume(scope)
    admin.limits.set(scope, concurrency=2)
    admin.limits.set(scope, concurrency=5, weight=2)
    admin.limits.unset(scope)
    assert _told(admin) == [
        ("pauses pause", str(scope), "", "paused"),
        ("pauses drain", str(scope), "paused", "draining"),
        ("pauses resume", str(scope), "draining", ""),
        ("limits set", str(scope), "", "concurrency 2"),
        ("limits set", str(scope), "concurrency 2", "concurrency 5, weight 2"),
        ("limits unset", str(scope), "concurrency 5, weight 2", ""),
    ]
    assert admin.acts.list()[0].time == pytest.approx(world.clock(), abs=0.01)
    assert audit(world.store.engine) == []


def test_acts_on_jobs_have_what_came_of_them(world: World, admin: Operators) -> None:
    """One note for each call, however many jobs it is about; none for what was refused."""
    for n in range(3):
        world.publish("acme", f"j{n}")
    worker = world.worker()
    for _ in range(2):
        worker.reject(worker.take_one(), "broken")
    admin.jobs.cancel("j2")
    admin.dead.replay("acme", "j0")
    admin.dead.purge(DeadFilter("acme", reason="broken"))
    admin.jobs.purge(workspace="acme")
    with pytest.raises(ConfigurationError):
        admin.jobs.purge(workspace="")
    with pytest.raises(TypeError):
        admin.pauses.pause()  # type: ignore[call-arg]
    assert _told(admin) == [
        ("jobs cancel", "job_id j2", "", "removed"),
        ("dead replay", "workspace acme, job_id j0", "", "yes"),
        ("dead purge", "workspace acme, reason broken", "", "1"),
        ("jobs purge", "workspace acme", "", "1"),
    ]


def test_an_operator_has_a_name(admin: Operators, caplog: pytest.LogCaptureFixture) -> None:
    """Inside ``by``; else it is the process. The log has it, too, without control characters."""
    with caplog.at_level(logging.INFO, "fairqueue.acts"), admin.acts.by(ODD):
        admin.pauses.pause(Scope.total())
    admin.pauses.resume(Scope.total())
    process, named = (act.by for act in admin.acts.list())
    assert named == ODD
    assert ":" in process
    assert "act pauses pause" in caplog.text
    assert "\x1b" not in caplog.text


def test_the_acts_are_bounded(world: World, admin: Operators) -> None:
    """The oldest go; long names are cut, and a damaged line is left out."""
    engine, key = world.store.engine, world.store.engine.keys.key("noted", "acts")
    engine.command("RPUSH", key, b"damaged", *[b"1 {}"] * 1100)
    admin.jobs.purge(workspace="w" * 200, task="t" * 255)
    assert engine.command("LLEN", key) == 1000
    (act,) = admin.acts.list()
    assert len(act.of) == 300


def test_an_act_that_cannot_be_noted_is_done(
    world: World,
    admin: Operators,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A brake must work; the log says that the note is missing.

    A failed act is noted as such, by a call that waits for a second at most: the act has waited.
    """
    waits = list[object]()

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    def clone(**options: object) -> Store:
        waits.append(options["timeout_seconds"])
        return Store(world.store.engine.clone())

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "pause", away)
        patch.setattr(world.store, "clone", clone)
        with pytest.raises(StoreUnavailable):
            admin.pauses.pause(Scope.total())
    assert _told(admin) == [("pauses pause", "everything", "", "ended by StoreUnavailable")]
    assert waits == [1.0]
    monkeypatch.setattr(world.store, "note_lines", away)
    admin.pauses.pause(Scope.workspace("acme"))
    assert [row.name for row in admin.pauses.list()] == ["acme"]
    assert "the act 'pauses pause' is not noted: away" in caplog.text


def test_what_cannot_begin_is_no_act(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A command that does not reach Redis waits once, not again to note it."""
    connects = list[object]()

    def connect(queue: Connection) -> None:
        connects.append(queue)
        raise StoreUnavailable("away")

    monkeypatch.setattr(Connection, "connect", connect)
    with (
        FairQueue("redis://localhost", brings_limits=False) as queue,
        caplog.at_level(logging.INFO, "fairqueue.acts"),
        pytest.raises(StoreUnavailable),
    ):
        queue.pauses.pause(Scope.total())
    assert len(connects) == 1
    assert not caplog.records
