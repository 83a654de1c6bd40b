"""Limits and pauses of names that nothing has named so far are stored, with a warning."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from fairqueue import FairQueue, Limits, Scope
from fairqueue._stores.store import Store
from fairqueue.operate.unseen_names import _closest
from tests.contract.world import Worker, World


@pytest.fixture
def queue(store: Store, caplog: pytest.LogCaptureFixture) -> FairQueue:
    """A queue over the store of the test."""
    caplog.set_level("WARNING", logger="fairqueue.admin")
    return FairQueue(store=store)


ACTIONS: list[tuple[str, Callable[[Any, str], object]]] = [
    ("workspace", lambda admin, name: admin.limits.set(Scope.workspace(name), concurrency=1)),
    ("task", lambda admin, name: admin.limits.set(Scope.task(name), concurrency=1)),
    ("queue", lambda admin, name: admin.limits.set(Scope.queue(name), concurrency=1)),
    ("workspace", lambda admin, name: admin.pauses.pause(Scope.workspace(name))),
    ("task", lambda admin, name: admin.pauses.pause(Scope.task(name))),
    ("queue", lambda admin, name: admin.pauses.drain(Scope.queue(name))),
]


@pytest.mark.parametrize(("scope", "act"), ACTIONS)
def test_a_typo_is_told(
    queue: FairQueue,
    world: World,
    caplog: pytest.LogCaptureFixture,
    scope: str,
    act: Callable[[Any, str], object],
) -> None:
    """The warning suggests the name that is meant; the second time the name is known."""
    world.publish("Acme", queue="Acme", task="Acme")
    act(queue, "Acme")
    assert caplog.messages == []
    act(queue, "acme ")
    act(queue, "acme ")
    assert caplog.messages == [
        f"no job, limit or pause names the {scope} 'acme ' now; did you mean 'Acme'?"
    ]
    caplog.clear()
    act(queue, "zzz")
    assert caplog.messages == [f"no job, limit or pause names the {scope} 'zzz' now"]


def test_what_ended_is_known(
    queue: FairQueue, world: World, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    """A workspace with dead letters only, a group, and a queue and task that are empty now."""
    world.configure(workspaces={"acme": Limits(parent="group")})
    world.publish("dead")
    worker.reject(worker.take_one())
    queue.limits.set(Scope.workspace("dead"), concurrency=1)
    queue.limits.set(Scope.workspace("group"), concurrency=1)
    queue.limits.set(Scope.queue("q"), concurrency=1)
    queue.limits.set(Scope.task("t"), concurrency=1)
    assert caplog.messages == []


@pytest.mark.parametrize("length", [12, 196])
def test_a_typo_among_many_names_is_told_in_bounded_time(length: int) -> None:
    """To compare ten thousand names of 196 characters took half a minute of a processor."""
    names = {f"client-{n:05}".ljust(length, "x") for n in range(10_000)}
    began = time.process_time()
    assert _closest("cleint-04321".ljust(length, "x"), names)
    assert _closest("client-4321".ljust(length - 1, "x"), names | {"other"}) != ["other"]
    assert time.process_time() - began < 3  # 0.2 on a machine at rest


def test_among_many_names_one_is_known_all_the_same(
    queue: FairQueue, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    """Up to 20 are compared here; that of a group is found, which only limits name."""
    monkeypatch.setattr("fairqueue.operate.unseen_names.MOST_COMPARED", 20)
    for n in range(300):
        world.limit(f"w{n}", parent=f"group {n}")
        world.publish(f"w{n}")
    for n in range(0, 300, 60):
        assert queue.views.hint(Scope.workspace(f"group {n}")) is None
    assert "the workspace 'zzz' now" in (queue.views.hint(Scope.workspace("zzz")) or "")
    assert caplog.messages == []


def test_a_known_name_is_told_of_its_twin(queue: FairQueue, world: World) -> None:
    """A customer's own limit makes the name known, but its jobs stand under the other one."""
    queue.limits.set(Scope.workspace("acme"), concurrency=3)
    assert queue.views.hint(Scope.workspace("acme")) is None
    world.publish("Acme ")
    assert queue.views.hint(Scope.workspace("acme")) == (
        "there is also the workspace 'Acme '; did you mean that?"
    )


def test_a_resume_and_an_unset_are_silent(
    queue: FairQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """They take something away."""
    queue.pauses.resume(Scope.workspace("acme"))
    queue.limits.unset(Scope.workspace("acme"))
    assert caplog.messages == []
