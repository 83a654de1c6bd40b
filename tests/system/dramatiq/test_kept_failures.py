"""With ``keep_failures`` an actor that failed for good leaves a dead letter, for replay."""

from __future__ import annotations

from typing import Any

from tests.system.dramatiq.conftest import message
from tests.system.ledger import wait_for


def test_an_actor_that_failed_for_good_is_kept(mill: Any) -> None:
    """After its last retry, with its traceback; a retry that succeeds leaves nothing."""
    settings = mill.settings(keep_failures=True)
    mill.worker("-p", "1", "-t", "2", settings=settings).ready()
    broker = mill.broker(settings)
    broker.enqueue(message("fails_twice", 1, workspace="ada", tries=99))
    broker.enqueue(message("fails_twice", 2, workspace="ada", tries=1))
    mill.ledger.wait("end", 1, n=2, seconds=30)
    mill.ledger.wait("start", 6, n=1, seconds=30)
    with mill.core() as core:
        wait_for(lambda: core.dead.page("ada"), seconds=30)
        (letter,) = core.dead.page("ada")
        assert (letter.reason, letter.job.task) == ("failed", "fails_twice")
        assert letter.details.rstrip().endswith("RuntimeError: not yet")
        assert "Traceback" in letter.details
        assert core.doctor.audit() == []
        assert core.dead.replay("ada", letter.job.id)
        mill.ledger.wait("start", 7, n=1, seconds=30)
        wait_for(lambda: core.dead.page("ada"), seconds=30)
