"""Finds a job by the id that its framework gave it."""

from __future__ import annotations

import json

from fairqueue import FairQueue


def job_of(core: FairQueue, task_id: str, queue: str | None) -> str | None:
    """The job that has this id in its message, as Celery or Dramatiq write it; None: none has."""
    as_json = json.dumps(task_id)
    texts = f'"id": {as_json}'.encode(), f'"message_id":{as_json}'.encode()
    queues = core.stats().queues if queue is None else [queue]
    found = (job for name in queues for text in texts for job in core.find(text, queue=name))
    return next(found, None)
