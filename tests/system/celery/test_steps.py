"""Durable steps under SIGKILL and SIGSTOP, by a ledger outside the broker."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.system.ledger import wait_for


def test_no_step_that_was_recorded_runs_again(shop: Any) -> None:
    """Killed within a step, behind its record, before the next one, and before the ack."""
    shop.app_name = "onboarding"
    url = shop.url(lease_seconds=1, max_deliveries=9)
    task = shop.publisher().send("onboard", workspace="ada")
    for _ in range(4):
        worker = shop.worker("-P", "solo", url=url)
        wait_for(lambda: worker.process.poll() is not None)  # noqa: B023
    shop.worker("-P", "solo", url=url)
    shop.ledger.wait("end", 2)
    effects = shop.ledger.lines("effect")
    assert Counter(row["step"] for row in effects) == {"one": 2, "two": 1, "three": 1}
    assert len({row["key"] for row in effects}) == 3
    assert [row["values"] for row in shop.ledger.lines("end")] == [[2, 4, 4]] * 2
    with shop.core() as core:
        wait_for(lambda: core.job(task.id, workspace="ada").state.value == "ended")
