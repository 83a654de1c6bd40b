"""Celery's features on one worker that several tests share."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain

import fairqueue
from tests.system.ledger import wait_for

pytestmark = [pytest.mark.system, pytest.mark.story]

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


@pytest.fixture
def latch(tmp_path: Path) -> Iterator[Path]:
    """The file that a blocking task waits for; it exists after the test in any case."""
    path = tmp_path / "latch"
    yield path
    path.touch()


def hold(publisher: Any, ledger: Any, workspace: str, latch: Path) -> None:
    """Take the only slot of a workspace until the latch exists."""
    publisher.send("curious.hold", 1, kwargs={"latch": str(latch)}, workspace=workspace)
    ledger.wait("start", 1)


def revoke(publisher: Any, task_id: str, **options: object) -> None:
    """Revoke, and wait until the worker has confirmed."""
    assert publisher.app.control.broadcast(
        "revoke", arguments={"task_id": task_id, **options}, reply=True, limit=1, timeout=60
    )


def test_a_task_knows_its_workspace_and_its_publishes_inherit_it(
    publisher: Any, ledger: Any, workspace: str
) -> None:
    """current() names a task's workspace; what the task publishes belongs to it, too."""
    publisher.send("curious.whoami", kwargs={"then": ["again", "again"]}, workspace=workspace)

    ledger.wait("whoami", 3)

    assert [row["workspace"] for row in ledger.lines("whoami")] == [workspace] * 3
    assert {row["deliveries"] for row in ledger.lines("whoami")} == {1}


def test_a_header_names_the_workspace(publisher: Any, ledger: Any, workspace: str) -> None:
    """The header ``workspace`` overrides workspace_from."""
    publisher.send("curious.whoami", workspace="other", headers={"workspace": workspace})

    ledger.wait("whoami", 1)

    assert ledger.lines("whoami")[0]["workspace"] == workspace


def test_a_with_block_names_the_workspace(publisher: Any, ledger: Any, workspace: str) -> None:
    """What is published inside ``with fairqueue.workspace()`` belongs to that workspace."""
    with fairqueue.workspace(workspace):
        publisher.send("curious.whoami")

    ledger.wait("whoami", 1)

    assert ledger.lines("whoami")[0]["workspace"] == workspace


def test_chains_callbacks_and_errbacks_stay_in_the_workspace(
    publisher: Any, ledger: Any, workspace: str
) -> None:
    """The rest of a chain, and links, belong to the workspace of the first task."""
    first = publisher.signature("work", 1, workspace=workspace)
    second = publisher.app.signature("curious.whoami", immutable=True)
    third = publisher.app.signature("curious.whoami", immutable=True)
    third.link(publisher.app.signature("curious.whoami", immutable=True))
    chain(first, second, third).apply_async()

    ledger.wait("whoami", 3)

    assert [row["workspace"] for row in ledger.lines("whoami")] == [workspace] * 3


def test_the_same_url_serves_results(publisher: Any, workspace: str) -> None:
    """``fairqueue://`` also works as a result backend."""
    assert publisher.send("work", 7, workspace=workspace).get(timeout=60) == 7


def test_a_countdown_is_held_in_the_core(open_shop: Any, ledger: Any, workspace: str) -> None:
    """A delayed task waits in the store, not in a worker, and starts on time."""
    publisher = open_shop.publisher()
    begun = time.monotonic()
    publisher.send("work", 1, workspace=workspace, countdown=2.0)
    assert open_shop.row(workspace).scheduled == 1

    ledger.wait("start", 1)

    assert 1.95 < ledger.lines("start")[0]["at"] - begun < 2.0 + AT_ONCE_SECONDS


def test_priority_orders_a_workspaces_jobs(
    publisher: Any, ledger: Any, workspace: str, latch: Path
) -> None:
    """0 is the most urgent, as in kombu's redis."""
    hold(publisher, ledger, workspace, latch)
    for n in (9, 5, 1, 0):
        publisher.send("work", n, workspace=workspace, priority=n)
    latch.touch()

    ledger.wait("end", 5)

    rows = sorted(ledger.lines("start"), key=lambda row: row["at"])
    assert [row["n"] for row in rows[1:]] == [0, 1, 5, 9]


def test_retries(publisher: Any, ledger: Any, workspace: str) -> None:
    """A retry is a new scheduled job and holds no slot until it is due."""
    publisher.send("flaky", 1, kwargs={"failures": 3}, workspace=workspace)

    ledger.wait("end", 1)

    assert [row["retries"] for row in ledger.lines("start")] == [0, 1, 2, 3]


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


def test_a_revoked_job_does_not_run(
    publisher: Any, ledger: Any, workspace: str, latch: Path
) -> None:
    """revoke() before the start drops the job and frees its slot."""
    hold(publisher, ledger, workspace, latch)
    waiting = publisher.send("work", 2, workspace=workspace)
    revoke(publisher, waiting.id)
    publisher.send("work", 3, workspace=workspace)
    latch.touch()

    ledger.wait("end", 1, n=3)

    assert not ledger.lines("start", n=2)


def test_terminate_frees_the_slot(publisher: Any, ledger: Any, workspace: str) -> None:
    """After revoke(terminate=True) the workspace's next job starts at once."""
    running = publisher.send("work", 1, kwargs={"seconds": 30}, workspace=workspace)
    publisher.send("work", 2, workspace=workspace)
    ledger.wait("start", 1)
    revoke(publisher, running.id, terminate=True, signal="SIGTERM")
    begun = time.monotonic()

    ledger.wait("end", 1, n=2)

    assert ledger.lines("start", n=2)[0]["at"] - begun < AT_ONCE_SECONDS


def test_a_hard_time_limit_frees_the_slot_after_the_process(
    publisher: Any, ledger: Any, workspace: str
) -> None:
    """The slot is freed when the process is gone, not when Celery announces the time-out."""
    publisher.send("endless", 1, workspace=workspace)
    publisher.send("work", 2, workspace=workspace)

    ledger.wait("start", 1, n=2)

    last_sign = max(row["at"] for row in ledger.lines("alive"))
    assert last_sign < ledger.lines("start", n=2)[0]["at"] < last_sign + AT_ONCE_SECONDS


def test_a_killed_childs_slot_is_freed(publisher: Any, ledger: Any, workspace: str) -> None:
    """A child dies in an early-acked task: it is not run again, its slot is freed at once."""
    publisher.send("shoot_oneself", 1, workspace=workspace)
    publisher.send("work", 2, workspace=workspace)

    ledger.wait("end", 1, n=2, workspace=workspace)

    rows = ledger.lines("start", workspace=workspace)
    assert [row["n"] for row in rows] == [1, 2]
    assert rows[1]["at"] - rows[0]["at"] < AT_ONCE_SECONDS


def test_reject_on_worker_lost_runs_again(publisher: Any, ledger: Any, workspace: str) -> None:
    """With task_reject_on_worker_lost a job whose child died runs again."""
    publisher.send("shoot_oneself_once", 1, workspace=workspace)

    ledger.wait("end", 1)

    assert len(ledger.lines("start")) == 2


def test_a_poisonous_job_becomes_a_dead_letter_after_max_deliveries(
    open_shop: Any, publisher: Any, ledger: Any, workspace: str
) -> None:
    """A job that always kills its child is a dead letter after three starts."""
    publisher.send("poison", 1, workspace=workspace)

    wait_for(lambda: (row := open_shop.row(workspace)) and row.dead == 1)

    assert len(ledger.lines("start", workspace=workspace)) == 3


@pytest.mark.parametrize("requeue", [True, False])
def test_reject(
    open_shop: Any, publisher: Any, ledger: Any, workspace: str, *, requeue: bool
) -> None:
    """Reject(requeue=True) runs again, uncounted; Reject() makes it a dead letter."""
    publisher.send("turn_away", 1, kwargs={"requeue": requeue}, workspace=workspace)

    if requeue:
        ledger.wait("end", 1)
        assert len(ledger.lines("start")) == 2
    else:
        wait_for(lambda: (row := open_shop.row(workspace)) and row.dead == 1)
        assert len(ledger.lines("start")) == 1


def test_remote_control_answers(publisher: Any, ledger: Any, workspace: str, latch: Path) -> None:
    """Inspect shows the worker and its running task."""
    hold(publisher, ledger, workspace, latch)
    [answer] = publisher.app.control.inspect(timeout=60, limit=1).active().values()

    assert [request["name"] for request in answer] == ["curious.hold"]
    assert publisher.app.control.broadcast("ping", reply=True, timeout=60, limit=1)


def test_an_expired_task_does_not_run(
    publisher: Any, ledger: Any, workspace: str, latch: Path
) -> None:
    """A task that expires while it waits is dropped, and its slot is free."""
    hold(publisher, ledger, workspace, latch)
    publisher.send("work", 2, workspace=workspace, expires=0.2)
    publisher.send("work", 3, workspace=workspace)
    time.sleep(0.3)
    latch.touch()

    ledger.wait("end", 1, n=3)

    assert not ledger.lines("start", n=2)


def test_nothing_stays_behind(open_shop: Any) -> None:
    """Afterwards no slot is held and no job waits."""

    def is_empty() -> bool:
        with open_shop.core() as core:
            stats = core.admin.stats()
        return not (any(row.running for row in stats.workspaces) or any(stats.queues.values()))

    wait_for(is_empty)
