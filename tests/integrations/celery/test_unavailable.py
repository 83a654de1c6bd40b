"""on_unavailable of Celery's calls: while Redis is away they raise, are buffered or run inline."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError

import fairqueue
import fairqueue_celery
from fairqueue import ConfigurationError, JobContext
from fairqueue.adapters import run_context
from fairqueue.testing import EmbeddedServer
from tests.integrations.celery.conftest import OpenApp
from tests.system.ledger import wait_for

pytestmark = pytest.mark.system

Make = Callable[..., Celery]
SOON_SECONDS = 0.25


@pytest.fixture
def make_app(open_app: OpenApp, server: EmbeddedServer, namespace: str, tmp_path: Path) -> Make:
    """Makes the app of a producer whose results are in the same Redis."""

    def make(on_unavailable: str = "buffer", **conf: Any) -> Celery:
        query = f"namespace={namespace}&on_unavailable={on_unavailable}&buffer_path={tmp_path}"
        url = f"fairqueue://{server.tcp_address}/0?{query}&on_missing_workspace=default"
        app = open_app(url, backend=url)
        app.conf.update(conf)
        app.task(name="tell", shared=False, bind=True)(_tell)
        app.task(name="inline", shared=False, bind=True, on_unavailable="inline")(_tell)
        return app

    return make


def _tell(task: Any, *_: Any) -> list[Any]:
    job = fairqueue.current()
    return [task.request.id, job and job.workspace, task.request.called_directly]


def drained(app: Celery, jobs: int) -> bool:
    """Wait until all that was buffered is sent."""
    queue = fairqueue_celery.queue_of(app)
    wait_for(lambda: not queue.buffered)
    return queue.depth("celery") == jobs


def test_calls_return_soon_while_redis_is_away(make_app: Make, server: EmbeddedServer) -> None:
    """Also of a process that has not reached it yet, and although results are there, too."""
    for known in (True, False):
        app = make_app()
        if known:
            app.tasks["tell"].delay()
        server.kill()
        app.tasks["tell"].delay()
        began = time.monotonic()
        for _ in range(3):
            assert app.tasks["tell"].apply_async(workspace="ada", task_id="x").id == "x"
        app.send_task("of another program", queue="celery")
        assert time.monotonic() - began < SOON_SECONDS
        server.start()
        assert drained(app, 6 if known else 11)


def test_a_batch_is_buffered(make_app: Make, server: EmbeddedServer) -> None:
    """Its signals follow, as if it were sent."""
    app = make_app()
    server.kill()
    with fairqueue_celery.batch(app):
        for _ in range(3):
            app.tasks["tell"].delay()
    server.start()
    assert drained(app, 3)


def test_a_call_by_a_topic_exchange_is_buffered(make_app: Make, server: EmbeddedServer) -> None:
    """By the bindings that this process has declared."""
    queue = Queue("celery", Exchange("topics", type="topic"), routing_key="a.#")
    app = make_app(task_queues=[queue], task_default_exchange="topics")
    server.kill()
    app.tasks["tell"].apply_async(exchange="topics", routing_key="a.b")
    server.start()
    assert drained(app, 1)


def test_a_task_runs_inline(make_app: Make, server: EmbeddedServer) -> None:
    """The result is there, with the id of the call; its workspace is that of a publish."""
    app = make_app()
    server.kill()
    result = app.tasks["inline"].apply_async(("x",), task_id="x", workspace="ada")
    assert result.get() == ["x", "ada", False]
    assert fairqueue_celery.queue_of(app).buffered == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda task: task.apply_async(countdown=1),
        lambda task: task.apply_async(link=task.s()),
        lambda task: chain(task.si(), task.si()).apply_async(),
        lambda task: task.apply_async(on_unavailable="raise"),
        lambda task: task.app.send_task("elsewhere", on_unavailable="inline"),
    ],
    ids=["countdown", "callback", "chain", "raise", "unknown here"],
)
def test_what_cannot_run_inline_raises(make_app: Make, server: EmbeddedServer, call: Any) -> None:
    """As with on_unavailable='raise', and soon."""
    app = make_app()
    server.kill()
    app.tasks["tell"].delay()
    with pytest.raises(OperationalError):
        call(app.tasks["inline"])


def test_a_call_that_may_be_stored_is_not_run_inline(
    make_app: Make, server: EmbeddedServer
) -> None:
    """Its reply was lost. It raises, and so do kombu's tries after it; the next call runs."""
    app = make_app("inline")
    app.tasks["tell"].delay()
    server.freeze()
    with pytest.raises(OperationalError):
        app.tasks["tell"].delay()
    assert app.tasks["tell"].delay().get()[1] == "default"


def test_a_running_job_buffers_nothing(make_app: Make, server: EmbeddedServer) -> None:
    """Nor does it run a task inline."""
    app = make_app()
    queue = fairqueue_celery.queue_of(app)
    app.tasks["tell"].delay()
    server.kill()
    for name in ("tell", "inline"):
        job = JobContext("id", "ada", 1, 1, store_id=queue.store.store_id)
        with run_context(job), pytest.raises(OperationalError):
            app.tasks[name].apply_async(ignore_result=True)


def test_a_bad_option_is_refused(make_app: Make) -> None:
    """At the call, with what is allowed."""
    app = make_app()
    with pytest.raises(ConfigurationError, match="'raise', 'buffer', 'inline'"):
        app.tasks["tell"].apply_async(on_unavailable="bufer", ignore_result=True)
