"""Find a job by its Celery task id or Dramatiq message id."""

from __future__ import annotations

import json

from fairqueue import FairQueue
from fairqueue.rows import FoundJob


def texts_of(task_id: str) -> tuple[bytes, bytes]:
    """Return the texts by which Celery and Dramatiq write this id into a message."""
    as_json = json.dumps(task_id)
    return f'"id": {as_json}'.encode(), f'"message_id":{as_json}'.encode()


def find_job(core: FairQueue, task_id: str, queue: str | None) -> FoundJob | None:
    """Return the job whose message has this task or message id, or None."""
    texts = texts_of(task_id)
    queues = core.views.stats().queues if queue is None else [queue]
    found = (job for name in queues for text in texts for job in core.jobs.find(text, queue=name))
    return next(found, None)
