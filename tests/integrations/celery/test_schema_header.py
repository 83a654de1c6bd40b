"""The recipe for Django apps with a schema for each workspace, which a header names."""

from __future__ import annotations

from typing import Any

from celery import Celery, group
from celery.contrib.testing.worker import start_worker

import fairqueue
from fairqueue_celery import queue_of

SCHEMA = ["acme"]
"""Stands for Django's ``connection.schema_name``."""


class App(Celery):
    """What the app of the package that the recipe names does with each publish."""

    def send_task(self, name: str, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        headers = options.get("headers") or {}
        options["headers"] = {"_schema_name": SCHEMA[0], **headers}
        return super().send_task(name, args=args, kwargs=kwargs, **options)


def test_the_schema_is_the_workspace(namespace: str) -> None:
    """By delay, send_task and in a group, and in a retry that is published under another schema."""
    where = "workspace_from=header:_schema_name&on_missing_workspace=reject"
    url = f"fairqueue+memory://{namespace}?{where}"
    ran: list[tuple[int, str]] = []

    with App("shop", broker=url, backend=url, set_as_current=False) as app:

        @app.task(bind=True, shared=False)
        def note(self: Any, number: int) -> None:
            job = fairqueue.current()
            assert job
            ran.append((number, job.workspace))
            if number == 1 and not self.request.retries:
                raise self.retry(countdown=0)

        SCHEMA[0] = "acme"
        results = [note.delay(1), app.send_task(note.name, (2,))]
        SCHEMA[0] = "umbrella"
        results.append(group(note.s(3), note.s(4)).apply_async())
        waiting = {row.workspace: row.waiting for row in queue_of(app).views.stats().workspaces}
        assert waiting == {"acme": 2, "umbrella": 2}
        SCHEMA[0] = "public"
        with start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=60):
            for result in results:
                result.get(timeout=60)
    assert sorted(ran) == [
        (1, "acme"), (1, "acme"), (2, "acme"), (3, "umbrella"), (4, "umbrella"),
    ]  # fmt: skip
