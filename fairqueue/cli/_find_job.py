"""Find a job by its Celery task id or Dramatiq message id."""

from __future__ import annotations

import json

from fairqueue import FairQueue


def find_job(core: FairQueue, task_id: str, queue: str | None) -> str | None:
    """Return the id of the job whose message has this task or message id, or None."""
    as_json = json.dumps(task_id)
    texts = f'"id": {as_json}'.encode(), f'"message_id":{as_json}'.encode()
    queues = core.admin.stats().queues if queue is None else [queue]
    found = (job for name in queues for text in texts for job in core.admin.find(text, queue=name))
    return next(found, None)
