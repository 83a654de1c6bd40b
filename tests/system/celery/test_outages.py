"""Redis, or the result backend, is away: what follows from a job comes, and a worker can stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import celery
import pytest
from celery import chord
from celery.backends.redis import RedisBackend

from fairqueue.testing import EmbeddedServer, embedded_redis
from tests.redis.proxy import proxy_before
from tests.system.ledger import wait_for

AWAY_SECONDS = 2.0
FLAG = "worker_cancel_long_running_tasks_on_connection_loss"


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_restarted_redis_loses_no_late_acked_job(
    own_shop: Any, tmp_path: Any, is_cancelled: bool
) -> None:
    """Celery cannot store that it cancelled a job, nor its result, while Redis is away."""
    shop, release = own_shop, tmp_path / "release"
    shop.config = {
        FLAG: is_cancelled,
        "result_backend": f"redis+socket://{shop._server.socket_path}",
        "result_backend_transport_options": {"retry_policy": {"max_retries": 1}},
    }
    shop.worker("-P", "prefork", "-c", "2", url=shop.url(lease_seconds=20)).ready()
    kwargs = {"until": str(release)}
    send = shop.publisher().send
    ids = [send("held_late", n, kwargs=kwargs, workspace="ada").id for n in (1, 2)]
    shop.ledger.wait("start", 2)

    shop._server.kill()
    time.sleep(AWAY_SECONDS)
    shop._server.start()
    if is_cancelled:
        shop.ledger.wait("start", 4)
    release.touch()

    shop.ledger.wait("end", 2)
    assert len(shop.ledger.lines("start")) == (4 if is_cancelled else 2)
    app = shop.publisher(shop.url(), result_backend=shop.config["result_backend"]).app
    wait_for(lambda: {app.AsyncResult(each).state for each in ids} == {"SUCCESS"})
    wait_for(lambda: shop.running("ada") == 0)


OUTLASTS_KOMBU_SECONDS = 4.0
"""kombu tries a publish for less than a second."""


def _send(shop: Any, what: str) -> None:
    publisher = shop.publisher(shop.url())
    if what == "chain":
        kwargs = {"tenant_id": "ada", "seconds": 1.5}
        first = publisher.app.signature("shop.work_late", (1,), kwargs)
        then = publisher.signature("work", 2, workspace="ada", immutable=True)
        (first | then).apply_async()
    else:
        publisher.send("late_flaky", 1, kwargs={"failures": 1, "seconds": 1.5}, workspace="ada")


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
@pytest.mark.parametrize("what", ["chain", "retry"])
def test_what_follows_from_a_job_is_published_when_redis_is_back(
    own_shop: Any, pool: str, what: str
) -> None:
    """Redis goes away while the first part runs, and is still away when it ends."""
    shop = own_shop
    shop.worker("-P", pool, "-c", "2", url=shop.url(lease_seconds=20)).ready()
    _send(shop, what)
    shop.ledger.wait("start", 1)
    shop._server.kill()
    time.sleep(OUTLASTS_KOMBU_SECONDS)
    shop._server.start()

    shop.ledger.wait("start", 2, seconds=30)
    shop.ledger.wait("end", 2 if what == "chain" else 1, seconds=30)
    assert len(shop.ledger.lines("start")) == 2


OUTLASTS_CELERY_SECONDS = 3.0
"""Celery's own tries to store a result last for one second here, and those to publish no longer."""


@pytest.fixture
def results() -> Iterator[EmbeddedServer]:
    """A server for the results alone, which may be killed."""
    with embedded_redis(persistent=True) as server:
        yield server


def _apply(
    shop: Any, results: EmbeddedServer, task: str, *options: str, lease_seconds: int = 20
) -> Any:
    """Apply a chord of two parts to a new worker; return its result when the last part runs."""
    url = shop.url(lease_seconds=lease_seconds)
    _results_at(shop, results, 1)
    shop.worker(*options, url=url).ready()
    publisher = shop.publisher(url, **shop.config)
    parts = [
        publisher.app.signature(f"shop.{task}", (n,), {"tenant_id": "ada", "seconds": seconds})
        for n, seconds in ((1, 0.0), (2, 1.5))
    ]
    body = publisher.signature("add_up", workspace="ada")
    result = chord(parts, body, app=publisher.app).apply_async()
    shop.ledger.wait("start", 2)
    wait_for(lambda: shop.running("ada") == 1)  # the first part's result is stored
    return result


@pytest.mark.parametrize(
    ("away", "task", "pool"),
    [
        ("broker", "work", "prefork"),
        ("broker", "work_late", "threads"),
        ("results", "work", "prefork"),
        ("results", "work_late", "prefork"),
        ("results", "work_late", "threads"),
        ("results", "work", "gevent"),
    ],
)
def test_the_body_of_a_chord_is_published_once(
    results: EmbeddedServer, own_shop: Any, away: str, task: str, pool: str
) -> None:
    """Broker and result backend are two servers, and either goes away while the last part runs."""
    result = _apply(own_shop, results, task, "-P", pool, "-c", "2")
    server = own_shop._server if away == "broker" else results
    server.kill()
    time.sleep(OUTLASTS_CELERY_SECONDS)
    server.start()

    own_shop.ledger.wait("sum", 1, total=3, seconds=30)
    wait_for(lambda: not own_shop.running("ada"))
    assert [len(own_shop.ledger.lines(what)) for what in ("start", "sum")] == [2, 1]
    assert result.get(timeout=10) == 3


@pytest.mark.skipif(
    not hasattr(RedisBackend, "_chord_part_return_script"),
    reason="before 5.7 each run that completes a chord publishes its body",
)
@pytest.mark.parametrize(
    ("pool", "signalled"),
    [("prefork", ""), ("gevent", ""), ("threads", "SIGSTOP"), ("threads", "SIGKILL")],
)
def test_the_body_of_a_chord_comes_though_the_last_part_lost_its_lease(
    results: EmbeddedServer, own_shop: Any, pool: str, signalled: str
) -> None:
    """Its count has claimed the publish: until that expires, no other run of the part does it."""
    shop, lease_seconds = own_shop, 2
    url = shop.url(lease_seconds=lease_seconds)
    result = _apply(shop, results, "work_late", "-P", pool, "-c", "2", lease_seconds=lease_seconds)
    worker = shop.workers[0]
    shop._server.kill()
    wait_for(lambda: "is not stored yet" in worker.log.read_text())
    if signalled:
        os.kill(worker.pid, getattr(signal, signalled))
        shop._server.start()
        shop.worker("-P", pool, "-c", "2", url=url).ready()
        shop.ledger.wait("end", 3)
        if signalled == "SIGSTOP":
            time.sleep(1.0)  # the other run has looked who is to publish it
            os.kill(worker.pid, signal.SIGCONT)
    else:
        time.sleep(2 * lease_seconds)
        shop._server.start()

    assert result.get(timeout=30) == 3
    assert len(shop.ledger.lines("sum")) == 1


def _results_at(shop: Any, results: EmbeddedServer, tries: int) -> None:
    """Keep results on a server of their own; Celery tries to write there for ``tries`` seconds."""
    shop.config = {
        "result_backend": results.url.replace("unix://", "redis+socket://"),
        "result_backend_transport_options": {"retry_policy": {"max_retries": tries}},
        "task_publish_retry": False,  # else a chord's body is claimed for longer
    }


@pytest.mark.parametrize(
    ("task", "pool"),
    [("work", "prefork"), ("work_late", "prefork"), ("work_late", "threads"), ("work", "gevent")],
)
def test_a_result_is_stored_when_its_backend_is_back(
    results: EmbeddedServer, own_shop: Any, task: str, pool: str
) -> None:
    """Celery reads the state before it writes, and tries that only once."""
    _results_at(own_shop, results, 20)
    own_shop.worker("-P", pool, "-c", "2", url=own_shop.url()).ready()
    publisher = own_shop.publisher(own_shop.url(), **own_shop.config)
    result = publisher.send(task, 1, workspace="ada", kwargs={"seconds": 1.0})
    own_shop.ledger.wait("start", 1)
    results.kill()
    own_shop.ledger.wait("end", 1)
    time.sleep(1.0)
    results.start()

    wait_for(lambda: result.state == "SUCCESS", seconds=10)
    wait_for(lambda: not own_shop.running("ada"))
    assert len(own_shop.ledger.lines("start")) == 1


def test_a_backend_that_stays_away_holds_up_the_first_job_only(
    results: EmbeddedServer, own_shop: Any
) -> None:
    """Each process waits once; when the backend is back, results are stored again."""
    shop, tries = own_shop, 3
    _results_at(shop, results, tries)
    worker = shop.worker("-P", "prefork", "-c", "1", url=shop.url()).ready()
    results.kill()
    for n in range(4):
        shop.publisher().send("work", n, workspace="ada")
    shop.ledger.wait("end", 4, seconds=20)
    first, *others = (line["at"] for line in shop.ledger.lines("end"))
    assert others[0] - first >= tries > others[-1] - others[0]

    wait_for(lambda: not shop.running("ada"))
    assert "trying again" in worker.log.read_text()
    results.start()
    result = shop.publisher(shop.url(), **shop.config).send("work", 4, workspace="ada")
    assert result.get(timeout=10) == 4


@pytest.mark.skipif(celery.VERSION < (5, 6), reason="what its own end of a task raises is lost")
def test_a_worker_that_stops_meanwhile_gives_back_a_part_that_is_acked_late(
    results: EmbeddedServer, own_shop: Any
) -> None:
    """In a pool whose threads hear of the stop; a child process waits as long as it may."""
    _apply(own_shop, results, "work_late", "-P", "threads", "-c", "2")
    results.kill()
    own_shop.ledger.wait("end", 2)
    own_shop.workers[0].stop(seconds=30)
    assert (own_shop.row("ada").waiting, own_shop.running("ada")) == (1, 0)


def test_a_worker_that_stops_at_a_full_redis_gives_back_what_it_cannot_retry(
    own_shop: Any, own_server: EmbeddedServer
) -> None:
    """Celery would reject a late-acked job whose retry cannot be published."""
    worker = own_shop.worker("-P", "threads", "-c", "2", url=own_shop.url()).ready()
    how = {"failures": 1, "seconds": 1.0}
    own_shop.publisher().send("late_flaky", 1, kwargs=how, workspace="ada")
    own_shop.ledger.wait("start", 1)
    own_server.client().config_set("maxmemory", 1)
    wait_for(lambda: "is not stored yet" in worker.log.read_text())
    worker.stop(seconds=30)
    row = own_shop.row("ada")
    assert (row.waiting, row.running, row.dead) == (1, 0, 0)


GRACE_SECONDS = 30.0
"""What Kubernetes gives a pod."""


AWAY = [("killed", "prefork"), ("killed", "gevent")]
AWAY += [("silent", pool) for pool in ("prefork", "threads", "gevent", "eventlet", "solo")]


@pytest.mark.parametrize("signalled", ["SIGTERM", "SIGQUIT"])
@pytest.mark.parametrize(("redis", "pool"), AWAY)
def test_a_worker_exits_within_its_grace(
    own_shop: Any, redis: str, pool: str, signalled: str
) -> None:
    """One job has ended, and its end could not be reported; the log says what becomes of it.

    A connection is refused, or is neither refused nor answered.
    """
    shop = own_shop
    with proxy_before(shop._server.url) as proxy:
        how = {"lease_seconds": 20}
        url = shop.url(**how) if redis == "killed" else shop.at_port(proxy.port, **how)
        worker = shop.worker("-P", pool, "-c", "2", url=url).ready()
        shop.publisher().send("work_late", 1, workspace="ada", kwargs={"seconds": 1.5})
        shop.ledger.wait("start", 1)
        if redis == "killed":
            shop._server.kill()
        proxy.silent = True
        shop.ledger.wait("end", 1)
        time.sleep(1.0)
        os.kill(worker.pid, getattr(signal, signalled))
        wait_for(lambda: worker.process.poll() is not None, seconds=GRACE_SECONDS)

    assert "leases will expire" in worker.log.read_text()


@pytest.mark.parametrize("pool", ["threads", "gevent"])
def test_a_worker_whose_results_are_there_exits_as_soon(own_shop: Any, pool: str) -> None:
    """A result waits for a silent Redis as long as any call; Celery's default is two minutes."""
    with proxy_before(own_shop._server.url) as proxy:
        url = own_shop.at_port(proxy.port)
        own_shop.config = {"result_backend": url}
        worker = own_shop.worker("-P", pool, "-c", "2", url=url).ready()
        own_shop.publisher().send("work", 1, workspace="ada", kwargs={"seconds": 1.0})
        own_shop.ledger.wait("start", 1)
        proxy.silent = True
        own_shop.ledger.wait("end", 1)
        assert worker.stop(seconds=GRACE_SECONDS) == 0


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_a_worker_waits_while_its_password_changes(
    own_shop: Any, own_server: EmbeddedServer, pool: str
) -> None:
    """It was let in before, so a refusal is no mistake of its settings: stock workers wait, too."""
    worker = own_shop.worker("-P", pool, "-c", "2", url=own_shop.url()).ready()
    publisher = own_shop.publisher()
    with own_server.client() as admin:
        admin.config_set("requirepass", "hunter2-hunter2")
        for kind in ("normal", "pubsub"):
            admin.client_kill_filter(_type=kind, skipme=True)
        wait_for(lambda: "Redis refuses this user" in worker.log.read_text())
        time.sleep(AWAY_SECONDS)
        admin.config_set("requirepass", "")
    publisher.send("work", 1, workspace="ada")
    own_shop.ledger.wait("end", 1)
    assert worker.process.poll() is None


GIVEN_UP_SECONDS = 40
"""Celery waits two seconds before its only retry; a search for Redis would take sixty."""


def test_max_retries_end_the_worker(own_shop: Any, own_server: EmbeddedServer) -> None:
    """With ``broker_connection_max_retries`` it exits with an error, for a supervisor to see."""
    own_shop.config = {"broker_connection_max_retries": 1}
    worker = own_shop.worker("-P", "threads", "-c", "1", url=own_shop.url()).ready()
    own_server.kill()
    assert worker.process.wait(GIVEN_UP_SECONDS) != 0
    assert "looking for it" not in worker.log.read_text()
