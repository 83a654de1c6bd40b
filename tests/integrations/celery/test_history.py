"""What a Celery worker notes of the runs that end."""

from __future__ import annotations

from typing import Any

from fairqueue_celery import queue_of
from tests.integrations.celery.conftest import OpenApp
from tests.integrations.celery.test_test_worker import working
from tests.system.ledger import wait_for


def test_runs_that_end_are_kept(open_app: OpenApp, socket_url: str, namespace: str) -> None:
    """With Celery's id, the outcome, and the first line of the error."""
    app = open_app(f"{socket_url}&history=9", backend="cache+memory://")
    app.conf.task_default_queue = f"q-{namespace}"

    @app.task(name="shop.work", shared=False, bind=True, max_retries=1)
    def work(self: Any, fails: bool) -> None:
        if fails:
            raise self.retry(countdown=0, exc=ValueError("no such row\nmore"))

    with working(app):
        good, bad = work.delay(False), work.delay(True)
        history = queue_of(app).history
        wait_for(lambda: len(history.list()) == 3)
        [of_good] = history.list(job_id=good.id)
        last, first = history.list(job_id=bad.id)

    assert (of_good.outcome, of_good.error, of_good.task) == ("succeeded", "", "shop.work")
    assert (first.outcome, last.outcome) == ("retried", "failed")
    assert last.error == "ValueError: no such row"
    assert "ValueError" in first.error
