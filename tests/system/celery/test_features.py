"""What Celery can do on any broker, on one worker that several tests share."""

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

pytestmark = pytest.mark.system

AT_ONCE_SECONDS = 10.0
"""On a loaded machine too, and long before the lease of the shop (30 s) would end."""

tenants = (f"tenant-{n}" for n in itertools.count())


@pytest.fixture
def ledger(open_shop: Any) -> Any:
    open_shop.ledger.forget()
    return open_shop.ledger


@pytest.fixture
def publisher(open_shop: Any) -> Any:
    return open_shop.publisher(backend=open_shop.url())


@pytest.fixture
def tenant() -> str:
    return next(tenants)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """What a task that holds its process waits for; in the end it is always there."""
    path = tmp_path / "gate"
    yield path
    path.touch()


def hold(publisher: Any, ledger: Any, tenant: str, gate: Path) -> None:
    """Take the one slot of a workspace, until the gate is there."""
    publisher.send("curious.hold", 1, kwargs={"gate": str(gate)}, tenant=tenant)
    ledger.wait("start", 1)


def revoke(publisher: Any, task_id: str, **options: object) -> None:
    """Revoke, and wait until the worker has said that it knows."""
    assert publisher.app.control.broadcast(
        "revoke", arguments={"task_id": task_id, **options}, reply=True, limit=1, timeout=60
    )


def test_a_task_knows_its_workspace_and_its_publishes_inherit_it(
    publisher: Any, ledger: Any, tenant: str
) -> None:
    """current() tells a task its workspace; what it publishes belongs there too."""
    publisher.send("curious.whoami", kwargs={"then": ["again", "again"]}, tenant=tenant)

    ledger.wait("whoami", 3)

    assert [row["workspace"] for row in ledger.lines("whoami")] == [tenant] * 3
    assert {row["deliveries"] for row in ledger.lines("whoami")} == {1}


def test_a_header_names_the_workspace(publisher: Any, ledger: Any, tenant: str) -> None:
    """The header ``workspace`` beats what workspace_from finds."""
    publisher.send("curious.whoami", tenant="other", headers={"workspace": tenant})

    ledger.wait("whoami", 1)

    assert ledger.lines("whoami")[0]["workspace"] == tenant


def test_a_with_block_names_the_workspace(publisher: Any, ledger: Any, tenant: str) -> None:
    """What is published inside ``with fairqueue.workspace()`` belongs there."""
    with fairqueue.workspace(tenant):
        publisher.send("curious.whoami")

    ledger.wait("whoami", 1)

    assert ledger.lines("whoami")[0]["workspace"] == tenant


def test_chains_callbacks_and_errbacks_stay_in_the_workspace(
    publisher: Any, ledger: Any, tenant: str
) -> None:
    """The rest of a chain belongs to the workspace of its first task, and so do links."""
    first = publisher.signature("work", 1, tenant=tenant)
    second = publisher.app.signature("curious.whoami", immutable=True)
    third = publisher.app.signature("curious.whoami", immutable=True)
    third.link(publisher.app.signature("curious.whoami", immutable=True))
    chain(first, second, third).apply_async()

    ledger.wait("whoami", 3)

    assert [row["workspace"] for row in ledger.lines("whoami")] == [tenant] * 3


def test_the_same_url_serves_results(publisher: Any, tenant: str) -> None:
    """``fairqueue://`` is a result backend as well."""
    assert publisher.send("work", 7, tenant=tenant).get(timeout=60) == 7


def test_a_countdown_is_held_in_the_core(open_shop: Any, ledger: Any, tenant: str) -> None:
    """A delayed task is scheduled in the store, not in a worker, and starts on time."""
    publisher = open_shop.publisher()
    begun = time.monotonic()
    publisher.send("work", 1, tenant=tenant, countdown=2.0)
    assert open_shop.row(tenant).scheduled == 1

    ledger.wait("start", 1)

    assert 1.95 < ledger.lines("start")[0]["at"] - begun < 2.0 + AT_ONCE_SECONDS


def test_priority_orders_a_workspaces_jobs(
    publisher: Any, ledger: Any, tenant: str, gate: Path
) -> None:
    """0 is the most urgent, as in kombu's redis."""
    hold(publisher, ledger, tenant, gate)
    for n in (9, 5, 1, 0):
        publisher.send("work", n, tenant=tenant, priority=n)
    gate.touch()

    ledger.wait("end", 5)

    rows = sorted(ledger.lines("start"), key=lambda row: row["at"])
    assert [row["n"] for row in rows[1:]] == [0, 1, 5, 9]


def test_retries_run_to_their_end(publisher: Any, ledger: Any, tenant: str) -> None:
    """A retry is a new scheduled job and does not hold a slot meanwhile."""
    publisher.send("flaky", 1, kwargs={"failures": 3}, tenant=tenant)

    ledger.wait("end", 1)

    assert [row["retries"] for row in ledger.lines("start")] == [0, 1, 2, 3]


def test_rate_limited_tasks_do_not_hold_up_quick_ones(
    publisher: Any, ledger: Any, tenant: str
) -> None:
    """Celery's rate_limit spaces its task; the others pass at once; none is lost."""
    for n in range(10):
        publisher.send("paced", n, tenant=f"{tenant}-{n}")
        publisher.send("work", n, tenant=f"{tenant}-quick-{n}")

    ledger.wait("end", 20)

    paced = sorted(row["at"] for row in ledger.lines("start", task="paced"))
    quick = [row["at"] for row in ledger.lines("start") if "task" not in row]
    assert len(paced) == 10
    assert 1.5 < paced[-1] - paced[0] < 1.8 + AT_ONCE_SECONDS
    assert max(quick) < paced[-1]


def test_a_revoked_job_does_not_run(publisher: Any, ledger: Any, tenant: str, gate: Path) -> None:
    """revoke() before the start: the job is dropped and its slot is free."""
    hold(publisher, ledger, tenant, gate)
    waiting = publisher.send("work", 2, tenant=tenant)
    revoke(publisher, waiting.id)
    publisher.send("work", 3, tenant=tenant)
    gate.touch()

    ledger.wait("end", 1, n=3)

    assert not ledger.lines("start", n=2)


def test_terminate_frees_the_slot(publisher: Any, ledger: Any, tenant: str) -> None:
    """revoke(terminate=True) of a running task: the next of its workspace starts at once."""
    running = publisher.send("work", 1, kwargs={"seconds": 30}, tenant=tenant)
    publisher.send("work", 2, tenant=tenant)
    ledger.wait("start", 1)
    revoke(publisher, running.id, terminate=True, signal="SIGTERM")
    begun = time.monotonic()

    ledger.wait("end", 1, n=2)

    assert ledger.lines("start", n=2)[0]["at"] - begun < AT_ONCE_SECONDS


def test_a_hard_time_limit_frees_the_slot_after_the_process(
    publisher: Any, ledger: Any, tenant: str
) -> None:
    """The slot is freed when the process is gone, not when Celery announces it."""
    publisher.send("endless", 1, tenant=tenant)
    publisher.send("work", 2, tenant=tenant)

    ledger.wait("start", 1, n=2)

    last_sign = max(row["at"] for row in ledger.lines("alive"))
    assert last_sign < ledger.lines("start", n=2)[0]["at"] < last_sign + AT_ONCE_SECONDS


def test_a_killed_childs_slot_is_freed(publisher: Any, ledger: Any, tenant: str) -> None:
    """A child that dies in an early-acked task: not run again, its slot free before its lease."""
    publisher.send("shoot_oneself", 1, tenant=tenant)
    publisher.send("work", 2, tenant=tenant)

    ledger.wait("end", 1, n=2)

    rows = ledger.lines("start")
    assert [row["n"] for row in rows] == [1, 2]
    assert rows[1]["at"] - rows[0]["at"] < AT_ONCE_SECONDS


def test_reject_on_worker_lost_runs_again(publisher: Any, ledger: Any, tenant: str) -> None:
    """With task_reject_on_worker_lost a job whose child died runs again."""
    publisher.send("shoot_oneself_once", 1, tenant=tenant)

    ledger.wait("end", 1)

    assert len(ledger.lines("start")) == 2


def test_a_poisonous_job_dies_after_max_deliveries(
    open_shop: Any, publisher: Any, ledger: Any, tenant: str
) -> None:
    """A job that kills its child every time goes to the dead letters after three starts."""
    publisher.send("poison", 1, tenant=tenant)

    wait_for(lambda: (row := open_shop.row(tenant)) and row.dead == 1)

    assert len(ledger.lines("start")) == 3


@pytest.mark.parametrize("requeue", [True, False])
def test_reject(open_shop: Any, publisher: Any, ledger: Any, tenant: str, *, requeue: bool) -> None:
    """Reject(requeue=True) runs again, burning no delivery; without it the job is dead."""
    publisher.send("turn_away", 1, kwargs={"requeue": requeue}, tenant=tenant)

    if requeue:
        ledger.wait("end", 1)
        assert len(ledger.lines("start")) == 2
    else:
        wait_for(lambda: (row := open_shop.row(tenant)) and row.dead == 1)
        assert len(ledger.lines("start")) == 1


def test_remote_control_answers(publisher: Any, ledger: Any, tenant: str, gate: Path) -> None:
    """Inspect sees the worker and its running task."""
    hold(publisher, ledger, tenant, gate)
    [answer] = publisher.app.control.inspect(timeout=60, limit=1).active().values()

    assert [request["name"] for request in answer] == ["curious.hold"]
    assert publisher.app.control.broadcast("ping", reply=True, timeout=60, limit=1)


def test_an_expired_task_does_not_run(publisher: Any, ledger: Any, tenant: str, gate: Path) -> None:
    """A task that expired while it waited is dropped, and its slot is free."""
    hold(publisher, ledger, tenant, gate)
    publisher.send("work", 2, tenant=tenant, expires=0.2)
    publisher.send("work", 3, tenant=tenant)
    time.sleep(0.3)
    gate.touch()

    ledger.wait("end", 1, n=3)

    assert not ledger.lines("start", n=2)


def test_nothing_stays_behind(open_shop: Any) -> None:
    """After all that, no slot is held and no job waits."""

    def is_empty() -> bool:
        with open_shop.core() as core:
            stats = core.stats()
        return not (any(row.running for row in stats.workspaces) or any(stats.queues.values()))

    wait_for(is_empty)
