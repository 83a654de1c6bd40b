"""What is said of a job that waits for the result of another one, which has no slot."""

from __future__ import annotations

from fairqueue import FairQueue, JobState
from tests.system.ledger import wait_for


def told_everywhere(core: FairQueue, parent: str, child: str, remedy: str) -> str:
    """Wait for it, and return the text: it is the same in ``why`` and in the doctor's remarks."""
    wait_for(core.views.blocked_waits, seconds=30)
    (wait,) = core.views.blocked_waits()
    names = f"task '{parent}'", f"task '{child}'", "workspace 'ada' has 1 of 1 taken", remedy
    assert [name in wait.text for name in names] == [True] * 4
    found = [core.views.why(job_id) for job_id in (wait.child_id, wait.job_id)]
    assert [one.state for one in found] == [JobState.WAITING, JobState.RUNNING]
    assert {one.waits for one in (*found, core.views.why(workspace="ada"))} == {(wait.text,)}
    remarks = core.doctor.checkup().remarks
    assert [one.text for one in remarks if one.about == "waits"] == [wait.text]
    return wait.text
