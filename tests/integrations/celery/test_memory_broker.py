"""``fairqueue+memory://`` with Celery's own test helpers: one process, no server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlencode

import celery.contrib.testing.tasks  # noqa: F401 - the ping that start_worker() sends
import pytest
from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker

import fairqueue
from fairqueue import ConfigurationError, Outcome
from fairqueue_celery import Unique, unique_outcome
from tests.integrations.celery.conftest import OpenApp
from tests.system.ledger import wait_for


class Seen:
    """Records what the tasks of one test did."""

    def __init__(self) -> None:
        self.order: list[tuple[str | None, int]] = []
        self.now = self.most = 0
        self._lock = threading.Lock()

    def begin(self, n: int) -> None:
        job = fairqueue.current()
        with self._lock:
            self.order.append((job.workspace if job else None, n))
            self.now += 1
            self.most = max(self.most, self.now)

    def end(self) -> None:
        with self._lock:
            self.now -= 1


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def make_app(open_app: OpenApp, namespace: str, seen: Seen) -> Callable[..., Celery]:
    """Makes apps as a user's tests would."""

    def make(**settings: object) -> Celery:
        query = urlencode({"workspace_from": "kwarg:tenant_id", **settings})
        url = f"fairqueue+memory://{namespace}?{query}"
        app = open_app(url, backend=url)
        add_tasks(app, seen)
        return app

    return make


def add_tasks(app: Celery, seen: Seen) -> None:
    @app.task(name="work", shared=False)
    def work(n: int, seconds: float = 0.0, tenant_id: str | None = None) -> int:
        seen.begin(n)
        time.sleep(seconds)
        seen.end()
        return n

    @app.task(name="tally", shared=False)
    def tally(numbers: list[int]) -> int:
        return sum(numbers)


def call(app: Celery, n: int = 1, *, tenant: str = "ada", **options: Any) -> Any:
    kwargs = {"tenant_id": tenant, **options.pop("kwargs", {})}
    return app.signature("work", (n,), kwargs, **options)


def test_a_solo_worker_runs_tasks(make_app: Any, seen: Seen) -> None:
    """With start_worker() tasks run in their workspaces and results come back."""
    app = make_app()
    with start_worker(app, shutdown_timeout=60):
        assert call(app, 7).apply_async().get(timeout=60) == 7
        then = app.signature("work", immutable=True, args=(5,))
        assert chain(call(app, 1), then).apply_async().get(timeout=60) == 5
        assert chord([call(app, n) for n in range(4)])(app.signature("tally")).get(timeout=60) == 6

    assert {workspace for workspace, _ in seen.order} == {"ada"}


def test_threads_keep_a_workspaces_limit(make_app: Any, seen: Seen) -> None:
    """With four threads and a limit of two, two jobs run at a time and each runs once."""
    app = make_app(workspace_concurrency=2)
    with start_worker(app, pool="threads", concurrency=4, shutdown_timeout=60):
        jobs = group(call(app, n, kwargs={"seconds": 0.05}) for n in range(8)).apply_async()

        assert jobs.get(timeout=60) == list(range(8))

    assert seen.most == 2
    assert sorted(n for _, n in seen.order) == list(range(8))


def test_an_absurd_delay_is_refused(make_app: Any) -> None:
    """The error names the bound; with other brokers a worker would hold the task for as long."""
    eta = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
    for absurd in ({"eta": eta}, {"countdown": 2e11}):
        with pytest.raises(ConfigurationError, match="at most 100 years"):
            call(make_app(), **absurd).apply_async()


@pytest.mark.parametrize("settings", [{}, {"task_acks_late": True}], ids=["early", "late"])
def test_a_retry_keeps_the_unique_key_of_its_task(make_app: Any, settings: dict[str, bool]) -> None:
    """While it waits and runs, another task under the key finds the first."""
    app, ran = make_app(), []
    app.conf.update(settings)

    @app.task(name="retried", bind=True, shared=False)
    def retried(self: Any, n: int) -> int:
        ran.append(n)
        if self.request.retries == 0:
            raise self.retry(countdown=0.3)
        return n

    def send(n: int) -> Any:
        return retried.apply_async((n,), unique_key="k")

    with start_worker(app, perform_ping_check=False, shutdown_timeout=60):
        first = send(1)
        wait_for(lambda: first.state == "RETRY")
        assert unique_outcome(send(2)) == Unique(Outcome.EXISTING, first.id)
        assert first.get(timeout=60) == 1
        assert send(3).get(timeout=60) == 3
    assert ran == [1, 1, 3, 3]


def test_a_prefork_pool_is_refused(make_app: Any) -> None:
    """Each child would have its own broker; the error at start-up names the remedy."""
    app = make_app()

    with pytest.raises(ConfigurationError, match="threads or solo"):
        app.WorkController(app=app, pool="prefork", concurrency=1)
