"""A Dramatiq message whose workspace is not found."""

from __future__ import annotations

from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

import fairqueue
from fairqueue_dramatiq import queue_of
from tests.integrations.dramatiq.conftest import Start

FROM = "kwarg:tenant_id"


@pytest.fixture(autouse=True)
def _warnings_are_seen(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that another test ran in this process may have raised the root logger's level."""
    caplog.set_level("WARNING", logger="fairqueue.publish")


def found(broker: StubBroker) -> tuple[dict[str, int], dict[str, int]]:
    """The waiting jobs per workspace, and the jobs without one per actor."""
    stats = queue_of(broker).views.stats()
    unnamed = {task: jobs.jobs for task, jobs in stats.without_workspace.items()}
    return {row.workspace: row.waiting for row in stats.workspaces}, unnamed


@pytest.mark.parametrize("broker", [{"workspace_from": FROM}], indirect=True)
def test_an_argument_by_position(broker: StubBroker) -> None:
    """``kwarg:`` binds by the actor's signature, also of an async one."""

    @dramatiq.actor
    def report(day: str, tenant_id: str) -> None: ...

    @dramatiq.actor
    async def mail(tenant_id: str) -> None: ...

    report.send("May", "a")
    mail.send("b")
    assert found(broker) == ({"a": 1, "b": 1}, {})


@pytest.mark.parametrize(
    "broker", [{"workspace_from": FROM, "on_missing_workspace": "reject"}], indirect=True
)
def test_reject(broker: StubBroker, start: Start) -> None:
    """``send()`` raises; the next step of a pipeline, and a retry, are published all the same."""
    seen: list[Any] = []

    @dramatiq.actor
    def last(result: Any) -> None:
        seen.append(result)

    @dramatiq.actor(min_backoff=1, max_backoff=1)
    def first(tenant_id: str) -> str:
        seen.append(tenant_id)
        if len(seen) == 1:
            raise RuntimeError("once more")
        return "done"

    with pytest.raises(fairqueue.WorkspaceUnresolved, match="'last' names no workspace"):
        last.send("x")
    (first.message("acme") | last.message()).run()
    start(broker)
    broker.join("default", timeout=60_000, fail_fast=False)
    assert seen == ["acme", "acme", "done"]
