"""An actor waits for the result of one without a slot: a warning names both, and the remedy."""

from __future__ import annotations

from typing import Any

from fairqueue import Scope
from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for


def test_a_wait_that_cannot_end_is_told(mill: Any) -> None:
    """The log, ``why`` and the doctor say the same; a higher limit lets both end."""
    settings = mill.settings(workspace_concurrency=1)
    worker = mill.worker("-p", "1", "-t", "2", settings=settings, app="waiting").ready()
    mill.broker(settings).enqueue(message("parent", 1, workspace="ada"))
    mill.ledger.wait("start", 1)
    with mill.core() as core:
        wait_for(core.views.blocked_waits, seconds=30)
        (wait,) = core.views.blocked_waits()
        names = "task 'parent'", "task 'child'", "workspace 'ada' has 1 of 1 taken", "pipeline"
        assert [name in wait.text for name in names] == [True] * 4
        assert core.views.why(wait.child_id).waits == (wait.text,)
        remarks = core.doctor.checkup().remarks
        assert [one.text for one in remarks if one.about == "waits"] == [wait.text]
        assert wait.text in worker.log.read_text()
        core.limits.set(Scope.workspace("ada"), concurrency=2)
        mill.ledger.wait("end", 1)
