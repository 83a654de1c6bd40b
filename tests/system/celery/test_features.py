"""Celery's features on one worker that several tests share."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.system.ledger import wait_for

pytestmark = pytest.mark.story

AT_ONCE_SECONDS = 10.0
"""Enough on a loaded machine, and long before the shop's lease (30 s) would end."""

tenants = (f"workspace-{n}" for n in itertools.count())


@pytest.fixture
def ledger(open_shop: Any) -> Any:
    open_shop.ledger.forget()
    return open_shop.ledger


@pytest.fixture
def publisher(open_shop: Any) -> Any:
    return open_shop.publisher(backend=open_shop.url())


@pytest.fixture
def workspace() -> str:
    return next(tenants)


def test_a_task_knows_its_workspace_and_its_publishes_inherit_it(
    publisher: Any, ledger: Any, workspace: str
) -> None:
    """current() names a task's workspace; what the task publishes belongs to it, too."""
    publisher.send("curious.whoami", kwargs={"then": ["again", "again"]}, workspace=workspace)

    ledger.wait("whoami", 3)

    assert [row["workspace"] for row in ledger.lines("whoami")] == [workspace] * 3
    assert {row["deliveries"] for row in ledger.lines("whoami")} == {1}


def test_rate_limited_tasks_do_not_delay_others(
    publisher: Any, ledger: Any, workspace: str
) -> None:
    """Celery's rate_limit delays its task; others run at once; none is lost."""
    for n in range(10):
        publisher.send("paced", n, workspace=f"{workspace}-{n}")
        publisher.send("work", n, workspace=f"{workspace}-quick-{n}")

    ledger.wait("end", 20)

    paced = sorted(row["at"] for row in ledger.lines("start", task="paced"))
    quick = [row["at"] for row in ledger.lines("start") if "task" not in row]
    assert len(paced) == 10
    assert 1.5 < paced[-1] - paced[0] < 1.8 + AT_ONCE_SECONDS
    assert max(quick) < paced[-1]


def test_a_poisonous_job_becomes_a_dead_letter_after_max_deliveries(
    open_shop: Any, publisher: Any, ledger: Any, workspace: str
) -> None:
    """A job that always kills its child is a dead letter after three starts."""
    publisher.send("poison", 1, workspace=workspace)

    wait_for(lambda: (row := open_shop.row(workspace)) and row.dead == 1)

    assert len(ledger.lines("start", workspace=workspace)) == 3


def test_nothing_stays_behind(open_shop: Any) -> None:
    """Afterwards no slot is held and no job waits."""

    def is_empty() -> bool:
        with open_shop.core() as core:
            stats = core.views.stats()
        return not (any(row.running for row in stats.workspaces) or any(stats.queues.values()))

    wait_for(is_empty)
