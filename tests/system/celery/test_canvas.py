"""Canvas, even in a full workspace, and other features of Celery on one worker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError

import fairqueue
from tests.system.ledger import wait_for

pytestmark = pytest.mark.story

tenants = (f"workspace-{n}" for n in itertools.count())
CAPACITY = 4


@pytest.fixture(scope="module")
def kitchen(open_a_shop: Callable[..., Any]) -> Any:
    """One worker for all tests here; a workspace's concurrency is one and its capacity small."""
    shop = open_a_shop("canvas")
    shop.open(results=True, workspace_concurrency=1, workspace_capacity=CAPACITY)
    return shop


@pytest.fixture
def app(kitchen: Any) -> Any:
    kitchen.ledger.forget()
    return kitchen.publisher(backend=kitchen.url()).app


@pytest.fixture
def workspace() -> str:
    return next(tenants)


@pytest.fixture
def task(app: Any, workspace: str) -> Callable[..., Any]:
    """A signature of one of the app's tasks, for this test's workspace."""

    def signature(name: str, *args: object, **kwargs: object) -> Any:
        kwargs = kwargs if name == "report" else {**kwargs, "tenant_id": workspace}
        return app.signature(f"canvas.{name}", args, kwargs)

    return signature


def workspaces(kitchen: Any, what: str) -> set[str]:
    return {row["workspace"] for row in kitchen.ledger.lines(what)}


def test_nested_canvas_completes(task: Any) -> None:
    """A chain that fans out into groups twice and joins again gives the right result."""
    work = chain(
        task("add", 1, 1),
        group(task("add", 10), task("add", 20)),
        task("tally"),
        group(chain(task("add", 1), task("add", 1)), task("add", 2)),
        task("tally"),
    )

    assert work.apply_async().get(timeout=60) == (12 + 22 + 2) * 2


def test_errbacks_are_called(kitchen: Any, task: Any, workspace: str) -> None:
    """An errback runs once, in the failed task's workspace, with Celery's arguments."""
    failing = task("fail")
    failing.link_error(task("report"))
    result = failing.apply_async()

    kitchen.ledger.wait("report", 1)

    [row] = kitchen.ledger.lines("report")
    assert row["workspace"] == workspace
    assert result.id in row["args"][0]


def test_a_failed_header_fails_the_chord(kitchen: Any, task: Any) -> None:
    """The body does not run, its errback does, and its result is a ChordError."""
    body = task("tally")
    body.link_error(task("report"))
    result = chord([task("add", 1, 1), task("fail")])(body)

    kitchen.ledger.wait("report", 1)
    wait_for(lambda: isinstance(result.result, ChordError))
    assert "as it should" in str(result.result)
    assert not kitchen.ledger.lines("tally")


@pytest.mark.parametrize("kind", ["task", "chain", "group"])
def test_a_task_replaces_itself(kitchen: Any, task: Any, workspace: str, kind: str) -> None:
    """After replace() with a task, a chain or a group the caller gets the replacement's result."""
    other = {
        "task": task("add", 1, 2),
        "chain": chain(task("add", 1, 2), task("add", 4)),
        "group": chord([task("add", 1, 2), task("add", 3, 4)], task("tally")),
    }[kind]

    result = task("become", other).apply_async()

    assert result.get(timeout=60) == {"task": 3, "chain": 7, "group": 10}[kind]
    assert workspaces(kitchen, "add") == {workspace}


def fill_up(task: Callable[..., Any]) -> None:
    """Publish for this workspace until a publish is refused."""
    for n in range(CAPACITY):
        task("add", n, n).apply_async()
    with pytest.raises(fairqueue.CapacityExceeded):
        task("add", 0, 0).apply_async()


SLOW = 0.6


@pytest.mark.parametrize("kind", ["link", "errback", "chain", "retry", "replace"])
def test_continuations_get_into_a_full_workspace(
    kitchen: Any, task: Any, workspace: str, kind: str
) -> None:
    """The workspace is full when a task ends; what follows it is published nevertheless."""
    linked, failing = task("add", 1, 1, seconds=SLOW), task("fail", SLOW)
    linked.link(task("report"))
    failing.link_error(task("report"))
    work = {
        "link": linked,
        "errback": failing,
        "chain": chain(task("add", 1, 1, seconds=SLOW), task("report")),
        "retry": task("insist", SLOW),
        "replace": task("become", task("report"), SLOW),
    }[kind]
    work.apply_async()
    wait_for(lambda: kitchen.running(workspace) == 1)
    fill_up(task)

    kitchen.ledger.wait("report", 1)
    [row] = kitchen.ledger.lines("report")
    assert row["workspace"] == workspace
    assert kind not in {"link", "chain"} or row["args"] == ["2"]
