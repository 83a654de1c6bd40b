"""What an operator does while real workers run: each test is the promise of one command."""

from __future__ import annotations

import time
from typing import Any

import celery
import pytest
from billiard.exceptions import WorkerLostError
from celery.exceptions import TaskRevokedError
from kombu.exceptions import OperationalError

from fairqueue import (
    Cancelled,
    Scope,
)
from tests.system.ledger import wait_for
from tests.system.waits import told_everywhere


def test_a_cancelled_task_is_stopped(shop: Any) -> None:
    """Under prefork it ends within a lease, its result is REVOKED, and other tasks go on."""
    publisher = shop.open("prefork", 1, results=True, lease_seconds=2, workspace_concurrency=1)
    running = publisher.send("work_late", 1, kwargs={"seconds": 60}, workspace="ada")
    publisher.send("work", 2, workspace="ada")
    publisher.send("work", 3, workspace="bob")
    shop.ledger.wait("start", 1, n=1)
    with shop.core(lease_seconds=2) as core:
        found = core.jobs.cancel_matching(workspace="ada")
    assert (found.removed, found.signalled) == (1, 1)

    with pytest.raises(TaskRevokedError):
        running.get(timeout=60)
    shop.ledger.wait("end", 1, n=3)
    wait_for(lambda: shop.running("ada") == 0)
    assert shop.ledger.lines(n=2) == []
    assert len(shop.ledger.lines("start", n=1)) == 1


@pytest.mark.parametrize(
    ("pool", "slots"),
    [("prefork", 2), ("threads", 2), ("gevent", 2), ("eventlet", 2), ("solo", 1)],
)
def test_workers_name_their_queues_and_slots(shop: Any, pool: str, slots: int) -> None:
    """Also those that are added or cancelled while all slots are taken, at the next renewal."""
    url = shop.url(lease_seconds=2)
    options = ("-P", pool, "-c", str(slots), "-Q", "celery,mail")
    worker = shop.worker(*options, url=url).ready()
    publisher = shop.publisher(url)
    control, there = shop.control(publisher), {"reply": True, "timeout": 60, "limit": 1}
    with shop.core(lease_seconds=2) as core:

        def told() -> Any:
            return [(w.worker, w.slots, w.queues, w.running) for w in core.views.workers()]

        wait_for(lambda: told() == [(worker.name, slots, ("celery", "mail"), 0)])
        (row,) = core.views.workers()
        assert row.software.endswith(f" celery/{celery.__version__}")
        if pool == "solo":  # it hears nothing while it runs a task
            return
        for n in range(slots):
            publisher.send("work", n, workspace="ada", kwargs={"seconds": 60})
        shop.ledger.wait("start", slots)
        control.add_consumer("reports", **there)
        wait_for(lambda: told()[0][1:3] == (slots, ("celery", "mail", "reports")))
        control.cancel_consumer("mail", **there)
        wait_for(lambda: told()[0][1:] == (slots, ("celery", "reports"), slots))


def test_a_worker_that_boots_on_a_full_redis_waits(own_shop: Any) -> None:
    """It says that memory is missing; a job can be cancelled, and then the others run."""
    shop, client = own_shop, own_shop._server.client()
    url = shop.url()
    publisher = shop.publisher(url)
    publisher.send("work", 1, workspace="ada")
    publisher.send("work", 2, workspace="bob")
    client.config_set("maxmemory", 1)
    worker = shop.worker("-P", "prefork", "-c", "1", url=url)
    wait_for(lambda: "Redis is out of memory" in worker.log.read_text())
    assert "Trying again in" in worker.log.read_text()
    with pytest.raises(OperationalError, match="Redis is out of memory"):
        publisher.send("work", 3, workspace="ada", retry=False)
    with shop.core(brings_limits=False) as core:
        assert core.jobs.cancel_matching(workspace="bob").removed == 1
    client.config_set("maxmemory", 0)
    shop.ledger.wait("end", 1, n=1)
    assert shop.ledger.lines(n=2) == []


@pytest.mark.parametrize("pool", ["prefork", "solo"])
def test_a_refusing_redis_is_not_asked_in_a_loop(own_shop: Any, pool: str) -> None:
    """What a worker cannot report or claim it tries less and less often; then all goes on."""
    shop, client = own_shop, own_shop._server.client()
    publisher = shop.open(pool, 1)
    [worker] = shop.workers
    for n in (1, 2):
        publisher.send("work_late", n, kwargs={"seconds": 1}, workspace="ada")
    shop.ledger.wait("start", 1, n=1)
    client.config_set("min-replicas-to-write", 1)  # it refuses each write, as one that is full
    shop.ledger.wait("end", 1, n=1)
    wait_for(lambda: "trying again: Redis has fewer replicas" in worker.log.read_text())
    before = _scripts(client)
    time.sleep(4)
    assert 1 <= _scripts(client) - before <= 24  # some 170 without a growing wait

    client.config_set("min-replicas-to-write", 0)
    shop.ledger.wait("end", 1, n=2)
    assert len(shop.ledger.lines("start", n=1)) == 1


def _scripts(client: Any) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("fcall", "evalsha"))


def test_a_task_in_a_thread_sees_that_it_was_cancelled(shop: Any) -> None:
    """The pool cannot stop it, but the task sees it within a lease."""
    shop.open("threads", 1, lease_seconds=2).send(
        "patient", 1, kwargs={"seconds": 30}, workspace="ada"
    )
    shop.ledger.wait("start", 1)
    with shop.core() as core:
        (job,) = [fence for fence in core.views.stats().workspaces if fence.running]
        assert job.workspace == "ada"
        assert core.jobs.cancel_matching(workspace="ada").signalled == 1
        assert core.jobs.cancel("no such job") is Cancelled.NOT_FOUND
    shop.ledger.wait("cancelled", 1)


def test_a_job_that_crashes_every_time_fails(shop: Any) -> None:
    """After its last start its result is FAILURE; errback and on_failure ran once."""
    publisher = shop.open(results=True, lease_seconds=3, max_deliveries=2)
    errback = publisher.app.signature("shop.mourn")
    sent = publisher.send("poison", 1, workspace="ada", link_error=errback)

    with pytest.raises(WorkerLostError, match="2 starts"):
        sent.get(timeout=60)
    shop.ledger.wait("errback", 1, workspace="ada", error="WorkerLostError")
    shop.ledger.wait("on_failure", 1, workspace="ada", id=sent.id)
    time.sleep(3.5)  # a notice would be taken again after a lease
    assert len(shop.ledger.lines("start")) == 2
    assert len(shop.ledger.lines("on_failure")) == len(shop.ledger.lines("errback")) == 1
    with shop.core() as core:
        (letter,) = core.dead.page("ada")
    assert [start.outcome for start in letter.history] == ["returned", "returned"]


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
        text = told_everywhere(core, "waiting.parent", "waiting.child", "canvas")
        assert text in worker.log.read_text()
        assert len(core.views.workers()) == 1
        core.limits.set(Scope.workspace("ada"), concurrency=2)
        shop.ledger.wait("end", 1)
        wait_for(lambda: core.views.blocked_waits() == [])
        assert worker.log.read_text().count("which has no free slot") == 1


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
