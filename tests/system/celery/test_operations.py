"""What an operator does while real workers run: each test is one command's promise."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from billiard.exceptions import WorkerLostError
from celery.exceptions import TaskRevokedError
from celery.result import AsyncResult
from click.testing import CliRunner

from fairqueue import Cancelled, CapacityExceeded, ConfigurationError, Outcome
from fairqueue.cli import main
from fairqueue_celery import Unique, unique_outcome
from tests.system.ledger import wait_for

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_a_cancelled_task_is_stopped_and_says_so(shop: Any) -> None:
    """Under prefork a running one ends within a lease, its result is REVOKED, the rest goes on."""
    url = shop.url(lease_seconds=2, workspace_concurrency=1)
    shop.config = {"result_backend": url}
    shop.worker("-P", "prefork", "-c", "1", url=url).ready()
    publisher = shop.publisher(url, result_backend=url)
    running = publisher.send("work_late", 1, kwargs={"seconds": 60}, tenant="ada")
    publisher.send("work", 2, tenant="ada")
    publisher.send("work", 3, tenant="bob")
    shop.ledger.wait("start", 1, n=1)
    with shop.core(lease_seconds=2) as core:
        found = core.cancel_workspace("ada")
    assert (found.gone, found.told) == (1, 1)

    with pytest.raises(TaskRevokedError):
        AsyncResult(running.id, app=publisher.app).get(timeout=60)
    shop.ledger.wait("end", 1, n=3)
    wait_for(lambda: shop.running("ada") == 0)
    assert shop.ledger.lines(n=2) == []
    assert len(shop.ledger.lines("start", n=1)) == 1


def test_a_thread_is_told_that_its_task_was_cancelled(shop: Any) -> None:
    """Where no pool can stop it, the task itself sees it, within a lease."""
    url = shop.url(lease_seconds=2)
    shop.worker("-P", "threads", "-c", "1", url=url).ready()
    shop.publisher(url).send("patient", 1, kwargs={"seconds": 30}, tenant="ada")
    shop.ledger.wait("start", 1)
    with shop.core() as core:
        (job,) = [fence for fence in core.stats().workspaces if fence.running]
        assert job.workspace == "ada"
        assert core.cancel_workspace("ada").told == 1
        assert core.cancel("no such job") is Cancelled.UNKNOWN
    shop.ledger.wait("cancelled", 1)


def test_nobody_waits_for_a_job_that_dies_of_crashes(shop: Any) -> None:
    """After its last start its result says FAILURE, its errback and on_failure have run, once."""
    url = shop.url(lease_seconds=3, max_deliveries=2)
    shop.config = {"result_backend": url}
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    publisher = shop.publisher(url, result_backend=url)
    errback = publisher.app.signature("shop.mourn")
    sent = publisher.send("poison", 1, tenant="ada", link_error=errback)

    with pytest.raises(WorkerLostError, match="2 starts"):
        AsyncResult(sent.id, app=publisher.app).get(timeout=60)
    shop.ledger.wait("errback", 1, tenant="ada", error="WorkerLostError")
    shop.ledger.wait("on_failure", 1, tenant="ada", id=sent.id)
    time.sleep(3.5)  # a notice would be taken again after a lease
    assert len(shop.ledger.lines("start")) == 2
    assert len(shop.ledger.lines("on_failure")) == len(shop.ledger.lines("errback")) == 1
    with shop.core() as core:
        (letter,) = core.dead_letters("ada")
    assert [start.outcome for start in letter.history] == ["returned", "returned"]


def test_another_worker_tells_of_a_job_that_killed_its_workers(shop: Any) -> None:
    """Whole workers were lost, so the job is buried by the reaper: a later worker tells."""
    url = shop.url(lease_seconds=2, max_deliveries=1)
    shop.config = {"result_backend": url}
    first = shop.worker("-P", "solo", url=url).ready()
    publisher = shop.publisher(url, result_backend=url)
    sent = publisher.send("work_late", 1, kwargs={"seconds": 60}, tenant="ada")
    shop.ledger.wait("start", 1)
    first.kill()
    shop.worker("-P", "threads", "-c", "1", url=url).ready()

    with pytest.raises(WorkerLostError):
        AsyncResult(sent.id, app=publisher.app).get(timeout=60)
    with shop.core() as core:
        (letter,) = core.dead_letters("ada")
        assert [start.outcome for start in letter.history] == ["lost"]
        assert core.replay("ada", letter.job.id)
    shop.ledger.wait("start", 2)


def test_an_expired_task_takes_no_slot_and_is_revoked(shop: Any) -> None:
    """It never starts while its workspace is busy, and its result says REVOKED, as with stock."""
    url = shop.url(lease_seconds=3, workspace_concurrency=1)
    shop.config = {"result_backend": url}
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    publisher = shop.publisher(url, result_backend=url)
    publisher.send("work", 1, kwargs={"seconds": 4}, tenant="ada")
    shop.ledger.wait("start", 1, n=1)
    late = publisher.send("work", 2, tenant="ada", expires=1)

    with pytest.raises(TaskRevokedError, match="expired"):
        AsyncResult(late.id, app=publisher.app).get(timeout=60)
    shop.ledger.wait("end", 1, n=1)
    assert shop.ledger.lines(n=2) == []
    with shop.core() as core:
        (letter,) = core.dead_letters("ada")
    assert (letter.reason, letter.deliveries) == ("expired", 0)


def test_a_task_under_a_key_is_sent_once(shop: Any) -> None:
    """The second caller is told of the first one's task; its retry is let in; then it is free."""
    url = shop.url()
    publisher = shop.publisher(url)
    options = {"kwargs": {"failures": 1}, "tenant": "ada", "unique_key": "invoice 7"}
    first = publisher.send("flaky", 1, **options)
    second = publisher.send("flaky", 2, **options)
    other = publisher.send("flaky", 3, **{**options, "tenant": "bob"})
    assert unique_outcome(second) == Unique(Outcome.EXISTING, first.id)
    assert unique_outcome(first) == Unique(Outcome.CREATED, first.id)
    assert unique_outcome(other.id) == Unique(Outcome.CREATED, other.id)

    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    shop.ledger.wait("end", 1, n=1)
    shop.ledger.wait("end", 1, n=3)
    assert shop.ledger.lines(n=2) == []
    assert [row["retries"] for row in shop.ledger.lines("start", n=1)] == [0, 1]
    wait_for(lambda: shop.running("ada") == 0)
    third = publisher.send("flaky", 4, **options)
    assert unique_outcome(third) == Unique(Outcome.CREATED, third.id)
    with pytest.raises(ConfigurationError, match="unique_key"):
        publisher.send("flaky", 5, tenant="ada", unique_for=5)


def test_a_paused_workspace_waits_and_a_draining_one_takes_nothing(shop: Any) -> None:
    """Its running task finishes, others go on, and it starts again when it is resumed."""
    url = shop.url(lease_seconds=3)
    shop.worker("-P", "threads", "-c", "2", url=url).ready()
    publisher = shop.publisher(url)
    publisher.send("work", 1, kwargs={"seconds": 1.0}, tenant="ada")
    shop.ledger.wait("start", 1, n=1)
    with shop.core() as core:
        core.pause(workspace="ada")
        publisher.send("work", 2, tenant="ada")
        publisher.send("work", 3, tenant="bob")
        shop.ledger.wait("end", 1, n=1)
        shop.ledger.wait("end", 1, n=3)
        time.sleep(0.5)
        assert shop.ledger.lines(n=2) == []
        core.drain(workspace="ada")
        shop.ledger.wait("end", 1, n=2)
        with pytest.raises(CapacityExceeded):
            publisher.send("work", 4, tenant="ada")
        core.resume(workspace="ada")
        publisher.send("work", 5, tenant="ada")
        shop.ledger.wait("end", 1, n=5)


def test_a_scheduled_task_is_cancelled_by_its_id(shop: Any) -> None:
    """Who called it knows its Celery id: the job is found by it, and gone."""
    url = shop.url()
    publisher = shop.publisher(url)
    publisher.send("work", 1, tenant="ada", countdown=600)
    late = publisher.send("work", 2, tenant="ada", countdown=600)
    command = ["cancel", "--task-id", late.id, "--url", url, "--json"]
    where = ["--namespace", shop.namespace]
    result = CliRunner().invoke(main, [*command, *where])
    assert json.loads(result.stdout)["outcome"] == "gone", result.output
    assert shop.row("ada").scheduled == 1
    assert CliRunner().invoke(main, [*command, *where]).exit_code == 1


def test_a_task_is_paused_and_resumed(shop: Any) -> None:
    """Its jobs stay where they are, in all workspaces; other tasks of the same queue go on."""
    url = shop.url()
    publisher = shop.publisher(url)
    told = CliRunner().invoke(main, ["pause", "--task", "shop.work", "--url", url])
    assert told.exit_code == 0, told.output
    for n, tenant in enumerate(("ada", "bob")):
        publisher.send("work", n, tenant=tenant)
        publisher.send("paced", n, tenant=tenant)
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    shop.ledger.wait("end", 2, task="paced")
    with shop.core() as core:
        assert core.depth("celery") == 2
    told = CliRunner().invoke(main, ["resume", "--task", "shop.work", "--url", url])
    assert "resumed" in told.output
    shop.ledger.wait("end", 4)
