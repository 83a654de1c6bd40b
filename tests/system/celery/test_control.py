"""Remote control, events and Flower, on two workers that know of each other."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import chord
from celery.exceptions import ChordError

from tests.nodes import free_port
from tests.system.celery.conftest import APPS
from tests.system.ledger import wait_for

tenants = (f"workspace-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def office(open_a_shop: Callable[..., Any]) -> Any:
    """Two workers; the second has its own queue, so the first runs everything else."""
    shop = open_a_shop("shop")
    shop.mingles = True
    url = shop.url(workspace_concurrency=1)
    shop.config = {"result_backend": url, "worker_send_task_events": True}
    shop.worker("-P", "prefork", "-c", "2", url=url).ready()
    shop.worker("-P", "prefork", "-c", "1", "-Q", "spare", url=url).ready()
    shop.control(shop.publisher(url))
    return shop


@pytest.fixture
def publisher(office: Any) -> Any:
    office.ledger.forget()
    return office.publisher(backend=office.url())


@pytest.fixture
def workspace() -> str:
    return next(tenants)


@pytest.fixture
def first(office: Any) -> str:
    """The name of the worker that runs the tests' tasks."""
    return f"w0@{office.namespace}"


@pytest.fixture
def ask(publisher: Any, first: str) -> Callable[..., Any]:
    """Returns the first worker's answer to an inspection."""

    def ask(what: str, *args: Any, **kwargs: Any) -> Any:
        inspect = publisher.app.control.inspect([first], timeout=60, limit=1)
        return (getattr(inspect, what)(*args, **kwargs) or {}).get(first)

    return ask


def celery(office: Any, *command: str) -> str:
    """Run a ``celery`` command as an operator does."""
    environment = {**os.environ, "CELERY_BROKER_URL": office.url()}
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "shop", *command],
        cwd=APPS, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_mingle_and_gossip(office: Any) -> None:
    """The second worker syncs with the first at its start, and each sees the other."""
    first, second = (worker.log for worker in office.workers)

    wait_for(lambda: "mingle: sync with 1 nodes" in second.read_text(), seconds=60)
    wait_for(lambda: f"sync with w1@{office.namespace}" in first.read_text(), seconds=60)
    assert "mingle: sync complete" in second.read_text()


def test_every_inspection_is_answered(
    office: Any, publisher: Any, ask: Any, workspace: str, first: str
) -> None:
    """All ``inspect`` commands answer; a running job is shown, a waiting one is not."""
    running = publisher.send("work", 1, kwargs={"seconds": 2}, workspace=workspace)
    office.ledger.wait("start", 1)
    publisher.send("work", 2, workspace=workspace)
    publisher.send("work", 3, workspace=workspace, countdown=1.5)

    assert [request["id"] for request in ask("active")] == [running.id]
    assert ask("query_task", running.id)[running.id][0] == "active"
    assert (ask("reserved"), ask("scheduled"), ask("revoked")) == ([], [], [])
    assert "shop.work" in ask("registered")
    assert [queue["name"] for queue in ask("active_queues")] == ["celery"]
    assert ask("stats")["pool"]["max-concurrency"] == 2
    assert ask("stats")["total"].get("shop.work", 0) >= 1
    assert ask("conf")["worker_send_task_events"] is True
    assert ask("clock")["clock"] > 0
    assert ask("ping") == {"ok": "pong"}
    assert "celery" in ask("report")["ok"]
    assert "clock" in ask("hello", f"someone@{office.namespace}")
    assert first in celery(office, "status")
    office.ledger.wait("end", 3)


def test_control_changes_a_running_worker(publisher: Any, ask: Any, first: str) -> None:
    """Rate limits, time limits and events can be changed remotely."""
    control = publisher.app.control

    def order(what: str, *args: Any) -> str:
        there = {"destination": [first], "reply": True, "timeout": 60, "limit": 1}
        [answer] = getattr(control, what)(*args, **there)
        return str(answer[first])

    assert "ok" in order("rate_limit", "shop.paced", "100/s")
    assert "ok" in order("time_limit", "shop.endless", 5, 10)
    assert "disabled" in order("disable_events")
    assert "enabled" in order("enable_events")


def test_consumers_come_and_go(office: Any, publisher: Any, ask: Any, first: str) -> None:
    """add_consumer takes a new queue at once; after cancel_consumer its jobs wait for the next."""
    control = publisher.app.control
    there = {"destination": [first], "reply": True, "timeout": 60, "limit": 1}
    control.add_consumer("visitors", **there)
    for n in range(4):  # more than there are processes
        publisher.send("work", n, workspace=str(n), queue="visitors", kwargs={"seconds": 1.0})
    office.ledger.wait("start", 2)
    assert {queue["name"] for queue in ask("active_queues")} == {"celery", "visitors"}

    control.cancel_consumer("visitors", **there)
    publisher.send("work", 4, workspace="a", queue="visitors")
    publisher.send("work", 5, workspace="a")
    office.ledger.wait("end", 1, n=5)

    assert len(office.ledger.lines("start")) == 3
    with office.core() as core:
        assert core.depth("visitors") == 3
    control.add_consumer("visitors", **there)
    office.ledger.wait("end", 6)
    control.cancel_consumer("visitors", **there)


def test_purge_drops_waiting_and_scheduled_jobs(office: Any, publisher: Any) -> None:
    """``celery purge`` reports how many it dropped."""
    for n in range(3):
        publisher.send("work", n, workspace="a", queue="unconsumed")
    publisher.send("work", 3, workspace="a", queue="unconsumed", countdown=60)
    with publisher.app.connection_for_write() as connection:
        [count] = connection.default_channel.queue_declare("unconsumed", passive=True)[1:2]
    assert count == 4

    assert "4 messages" in celery(office, "purge", "-f", "-Q", "unconsumed")

    with office.core() as core:
        assert core.depth("unconsumed") == 0


def revoke(publisher: Any, task_id: str, **options: object) -> None:
    """Revoke, and wait until both workers have confirmed."""
    arguments = {"task_id": task_id, **options}
    answers = publisher.app.control.broadcast(
        "revoke", arguments=arguments, reply=True, limit=2, timeout=60
    )
    assert len(answers) == 2


def waits(office: Any, workspace: str) -> int:
    row = office.row(workspace)
    return int(row.waiting + row.scheduled) if row else 0


@pytest.mark.parametrize("countdown", [None, 60], ids=["waiting", "scheduled"])
def test_a_revoked_job_leaves_the_queue_at_once(
    office: Any, publisher: Any, workspace: str, countdown: float | None
) -> None:
    """Long before its turn, so no restart brings it back; it is announced once."""
    running = publisher.send("work", 1, kwargs={"seconds": 3}, workspace=workspace)
    office.ledger.wait("start", 1)
    held = publisher.send("work", 2, workspace=workspace, countdown=countdown)
    other = publisher.send("work", 3, workspace=workspace, countdown=countdown)
    assert waits(office, workspace) == 2

    revoke(publisher, held.id)
    revoke(publisher, running.id)

    wait_for(lambda: waits(office, workspace) == 1)
    wait_for(lambda: held.state == "REVOKED")
    assert not office.ledger.lines("end")  # what runs is left alone
    office.ledger.wait("end", 1, n=1)
    logs = [worker.log for worker in office.workers]
    wait_for(lambda: sum(log.read_text().count(f"[{held.id}]") for log in logs) == 1)
    publisher.app.control.revoke(other.id)
    wait_for(lambda: waits(office, workspace) == 0 and office.running(workspace) == 0)


def test_a_revoked_part_of_a_chord_fails_it(office: Any, publisher: Any, workspace: str) -> None:
    """The chord does not wait for ever for the job that was taken out of the queue."""
    parts = [
        publisher.app.signature("shop.work", (n,), {"tenant_id": workspace, "seconds": 2})
        for n in (1, 2)
    ]
    result = chord(parts)(publisher.app.signature("shop.add_up", kwargs={"tenant_id": workspace}))
    office.ledger.wait("start", 1)

    revoke(publisher, result.parent.children[1].id)

    wait_for(lambda: isinstance(result.result, ChordError))
    assert "revoked" in str(result.result)
    assert not office.ledger.lines("sum")


@pytest.mark.parametrize("countdown", [None, 0.5], ids=["waiting", "scheduled"])
def test_jobs_are_revoked_by_a_stamped_header(
    office: Any, publisher: Any, workspace: str, countdown: float | None
) -> None:
    """revoke_by_stamped_headers() drops the jobs with the stamp, and no others."""
    publisher.send("work", 1, kwargs={"seconds": 1}, workspace=workspace)
    office.ledger.wait("start", 1)
    for n in (2, 3):
        stamped = publisher.signature("work", n, workspace=workspace)
        stamped.stamp(order=[f"{workspace}-7"])
        stamped.apply_async(countdown=countdown)
    other = publisher.signature("work", 4, workspace=workspace)
    other.stamp(order=[f"{workspace}-8"])
    publisher.app.control.revoke_by_stamped_headers(
        {"order": [f"{workspace}-7"]}, reply=True, limit=2, timeout=60
    )
    other.apply_async(countdown=countdown)

    office.ledger.wait("end", 1, n=4)

    assert {row["n"] for row in office.ledger.lines("start")} == {1, 4}


def test_events_of_tasks_and_workers(publisher: Any, workspace: str, first: str) -> None:
    """A receiver sees heartbeats, and a task being sent, received, started and done."""
    publisher.app.conf.task_send_sent_event = True
    seen: set[str] = set()
    wanted = {"task-sent", "task-received", "task-started", "task-succeeded", "worker-heartbeat"}

    def note(event: Any) -> None:
        if event["type"] == "worker-heartbeat" or event.get("uuid") == sent.id:
            seen.add(event["type"])

    with publisher.app.connection_for_read() as connection:
        receiver = publisher.app.events.Receiver(connection, handlers={"*": note})
        with receiver.consumer_context() as (receiving, _, _):
            with contextlib.suppress(TimeoutError):
                receiving.drain_events(timeout=0.3)  # subscribes
            sent = publisher.send("work", 1, workspace=workspace)
            wait_for(lambda: _drained(receiving) and seen >= wanted)


def _drained(connection: Any) -> bool:
    with contextlib.suppress(TimeoutError):
        connection.drain_events(timeout=0.2)
    return True


# Flower


@pytest.fixture(scope="module")
def flower(office: Any) -> Iterator[Callable[[str], str]]:
    """A running Flower; returns its pages by path."""
    pytest.importorskip("flower")
    port, log = free_port(), office.ledger.path.with_name("flower.log")
    environment = {
        **os.environ,
        "CELERY_BROKER_URL": office.url(),
        "FLOWER_UNAUTHENTICATED_API": "true",
    }
    command = ["-m", "celery", "-A", "shop", "flower", "--address=127.0.0.1", f"--port={port}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=APPS, env=environment, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    def is_up() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            return bool(get("/healthcheck"))
        return False

    try:
        wait_for(is_up, seconds=60)
        yield get
    finally:
        process.terminate()
        process.wait(60)


def test_flowers_pages_load(
    office: Any, publisher: Any, flower: Callable[[str], str], workspace: str, first: str
) -> None:
    """The pages of workers, one worker, tasks, one task and metrics show what happens.

    Its broker page knows a few schemes only, and ours is none of them.
    """
    wait_for(lambda: first in flower("/workers?json=1"))
    done = publisher.send("work", 1, workspace=workspace)
    wait_for(lambda: json.loads(flower("/api/tasks")).get(done.id, {}).get("state") == "SUCCESS")

    assert first in flower("/workers")
    assert "Max concurrency" in flower(f"/worker/{first}")
    assert "<table" in flower("/tasks")
    assert "shop.work" in flower(f"/task/{done.id}")
    assert "flower_events_total" in flower("/metrics")
    detail = json.loads(flower(f"/api/workers?refresh=true&workername={first}"))[first]
    assert detail["stats"]["broker"]["transport"].startswith("fairqueue")
    assert [queue["name"] for queue in detail["active_queues"]] == ["celery"]


def _processes(stats: Any) -> list[int]:
    return [len(answer["pool"]["processes"]) for answer in stats.values()]


def test_a_pool_grows_and_a_worker_is_shut_down(office: Any, publisher: Any) -> None:
    """pool_grow lets more jobs run at once; shutdown() stops only the named worker."""
    control, spare = publisher.app.control, [f"w1@{office.namespace}"]
    control.pool_grow(1, destination=spare, reply=True, timeout=60, limit=1)
    wait_for(lambda: _processes(control.inspect(spare, timeout=60, limit=1).stats()) == [2])
    for n in range(2):
        publisher.send("work", n, kwargs={"seconds": 2.0}, workspace=f"grown-{n}", queue="spare")
    office.ledger.wait("end", 2)
    assert office.ledger.most_at_once() == 2

    control.shutdown(destination=spare)

    assert office.workers[1].process.wait(60) == 0
    assert office.workers[0].process.poll() is None
