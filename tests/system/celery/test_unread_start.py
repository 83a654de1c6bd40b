"""A child dies before its parent has read that it began a job; stock Celery starts it again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.ledger import wait_for


@pytest.fixture(scope="module")
def ward(open_a_shop: Any) -> Any:
    """A worker that never reads that its children began a job."""
    shop = open_a_shop("unread")
    url = shop.url(lease_seconds=30, max_deliveries=2)
    shop.config = {"result_backend": url}
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    return shop


def test_an_early_acked_job_runs_once(ward: Any) -> None:
    """It fails, since its child was lost, and its slot is free."""
    publisher = ward.publisher(backend=ward.url())

    sent = publisher.send("unread.die", 1, workspace="early")

    wait_for(sent.ready)
    assert "WorkerLostError" in repr(sent.result)
    wait_for(lambda: ward.running("early") == 0)
    assert len(ward.ledger.lines("start", workspace="early")) == 1
    publisher.send("work", 2, workspace="early")
    ward.ledger.wait("end", 1, workspace="early")


def test_a_late_acked_job_is_counted(ward: Any) -> None:
    """Each start is a delivery; after the last one it is a dead letter."""
    ward.publisher().send("unread.die_late", 1, workspace="late")

    wait_for(lambda: (row := ward.row("late")) and row.dead == 1)
    assert len(ward.ledger.lines("start", workspace="late")) == 2
