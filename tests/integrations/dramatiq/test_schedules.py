"""Schedules of Dramatiq's messages: put at run time, and declared by actors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

import fairqueue
from fairqueue import ConfigurationError, Schedule
from fairqueue_dramatiq import schedules_of
from tests.integrations.dramatiq.conftest import Start
from tests.system.ledger import wait_for

pytestmark = pytest.mark.parametrize(
    "broker", [{"workspace_from": "kwarg:tenant_id"}], indirect=True
)


def test_a_worker_publishes_them(broker: StubBroker, start: Start) -> None:
    """Messages that were put, and an actor's own; a retry knows the time that it is for."""
    runs: list[tuple[str, str, datetime | None]] = []

    @dramatiq.actor(max_retries=1, min_backoff=1, max_backoff=2)
    def note(what: str, tenant_id: str | None = None) -> None:
        job: Any = fairqueue.current()
        runs.append((what, job.workspace, job.tick))
        if what == "retried" and len([run for run in runs if run[0] == what]) == 1:
            raise RuntimeError("not yet")

    @dramatiq.actor(schedule=Schedule(every=3600, overlap="skip"))
    def sync() -> None:
        note.fn("sync")

    schedules = schedules_of(broker)
    assert schedules.put("n", note.message("retried"), workspace="acme", every=3600)
    assert schedules.put("m", note.message("own", tenant_id="globex"), cron="0 3 * * *", spread=9)
    start(broker)
    wait_for(lambda: schedules.get("sync", workspace="default"))
    rows = {row.name: (row.workspace, row.owner, row.task) for row in schedules.list()}
    assert rows == {
        "n": ("acme", "", "note"),
        "m": ("globex", "", "note"),
        "sync": ("default", "dramatiq", "sync"),
    }
    for name, workspace in (("n", "acme"), ("m", "globex"), ("sync", "default")):
        assert schedules.trigger(name, workspace=workspace)
    wait_for(lambda: len(runs) == 4)
    assert {run[:2] for run in runs} == {
        ("retried", "acme"),
        ("own", "globex"),
        ("sync", "default"),
    }
    first, second = [tick for what, _, tick in runs if what == "retried"]
    assert first is not None
    assert first == second


def test_bad_input(broker: StubBroker) -> None:
    """Nothing is stored or declared of what no tick could publish."""

    @dramatiq.actor
    def note(what: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="publishes a message"):
        schedules_of(broker).put("n", note, workspace="acme", every=5)
    with pytest.raises(ConfigurationError, match="must be JSON"):
        schedules_of(broker).put("n", note.message({1, 2}), workspace="acme", every=5)
    with pytest.raises(ConfigurationError, match=r"schedule must be a fairqueue\.Schedule"):
        dramatiq.actor(note.fn, actor_name="other", schedule="0 3 * * *")
    assert schedules_of(broker).list() == []
    with pytest.raises(ConfigurationError, match="no FairQueueMiddleware"):
        schedules_of(StubBroker())
