"""A task that waits for the result of one without a slot: a warning names both, and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from fairqueue import FairQueue, JobState, Scope
from tests.system.ledger import wait_for


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_wait_that_cannot_end_is_told(shop: Any, pool: str) -> None:
    """The log, ``why`` and the doctor say the same; a higher limit lets both end."""
    shop.app_name = "waiting"
    url = shop.url(workspace_concurrency=1)
    shop.config = {"result_backend": url}
    worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
    shop.publisher(url).app.send_task("waiting.parent", kwargs={"tenant_id": "ada"})
    shop.ledger.wait("start", 1)
    with shop.core() as core:
        text = told(core)
        assert text in worker.log.read_text()
        core.limits.set(Scope.workspace("ada"), concurrency=2)
        shop.ledger.wait("end", 1)
        wait_for(lambda: core.views.blocked_waits() == [])
        assert worker.log.read_text().count("which has no free slot") == 1


def told(core: FairQueue) -> str:
    """What is said of the wait, everywhere the same."""
    wait_for(core.views.blocked_waits, seconds=30)
    (wait,) = core.views.blocked_waits()
    names = "task 'waiting.parent'", "task 'waiting.child'", "workspace 'ada' has 1 of 1 taken"
    assert [name in wait.text for name in (*names, "canvas")] == [True] * 4
    child, parent, workspace = (
        core.views.why(wait.child_id),
        core.views.why(wait.job_id),
        core.views.why(workspace="ada"),
    )
    assert (child.state, parent.state) == (JobState.WAITING, JobState.RUNNING)
    assert {child.waits, parent.waits, workspace.waits} == {(wait.text,)}
    remarks = core.doctor.checkup().remarks
    assert [one.text for one in remarks if one.about == "waits"] == [wait.text]
    assert len(core.views.workers()) == 1
    return wait.text
