"""With ``keep_failures`` a task that ended in an error is a dead letter, and can be replayed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.ledger import wait_for


@pytest.mark.parametrize(
    ("pool", "task"),
    [
        ("prefork", "late_flaky"),
        ("threads", "flaky"),
        ("gevent", "late_flaky"),
        ("solo", "flaky"),
    ],
)
def test_a_task_that_failed_for_good_is_kept(shop: Any, pool: str, task: str) -> None:
    """After its last retry, acked early or late, with its traceback; others leave nothing."""
    publisher = shop.open(pool, keep_failures=True)
    seconds = {"seconds": 0.0} if task == "late_flaky" else {}
    publisher.send(task, 1, kwargs={"failures": 99, **seconds}, workspace="ada")
    publisher.send(task, 2, kwargs={"failures": 1, **seconds}, workspace="ada")
    publisher.send("work", 3, workspace="ada")
    shop.ledger.wait("end", 2, workspace="ada", seconds=30)
    with shop.core(brings_limits=False) as core:
        wait_for(lambda: core.dead.page("ada"), seconds=30)
        (letter,) = core.dead.page("ada")
        assert letter.reason == "failed"
        assert "MaxRetriesExceededError" in letter.details
        assert "Traceback" in letter.details
        assert letter.job.task.endswith(task)
        assert core.doctor.audit() == []
        begun = len(shop.ledger.lines("start"))
        assert core.dead.replay("ada", letter.job.id)
        shop.ledger.wait("start", begun + 1, seconds=30)
        wait_for(lambda: core.dead.page("ada"), seconds=30)
    wait_for(lambda: not shop.running("ada"), seconds=10)
