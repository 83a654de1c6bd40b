"""Takes waiting jobs out of the core, in the process that revokes their tasks.

Celery keeps revoked ids in its workers' memory and drops a job when its turn comes; if every
worker was restarted meanwhile, it runs after all. So the process that sends the command withdraws
the job. That leaves a failure notice, by which a worker announces what Celery announces of a
revoked job: see ``failures``. Running jobs are left to Celery.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from kombu.serialization import loads
from kombu.utils.functional import maybe_list

from fairqueue import FairQueue, FairQueueError

logger = logging.getLogger("fairqueue_celery.revoke")

COMMANDS = frozenset({"revoke", "terminate"})
JSON = "application/json"
"""Celery's default for commands; another form is left to the workers, and nothing is unpickled."""
OF_CONTROL = ".pidbox"
"""How the name of an exchange of remote control ends."""

MOST_SECONDS = 2.0
"""One command begins no search after this time: each is through every workspace."""


def withdraw_revoked(core: FairQueue, channel: Any, exchange: str, message: Any) -> None:
    """Withdraw what a command of remote control revokes; the workers have the command already."""
    is_plain = message["content-type"] == JSON and not message["headers"].get("compression")
    if not (exchange.endswith(OF_CONTROL) and is_plain):
        return
    body = channel.decode_body(message["body"], message["properties"].get("body_encoding"))
    command = loads(body, JSON, message["content-encoding"])
    if command["method"] not in COMMANDS:
        return
    until, ids = time.monotonic() + MOST_SECONDS, (command["arguments"] or {}).get("task_id")
    for task_id in map(str, maybe_list(ids) or ()):
        why: object = "the search for others took too long"
        try:
            if time.monotonic() < until:
                core.jobs.withdraw(task_id)
                continue
        except FairQueueError as error:
            why = error
        logger.info("task %r is revoked when its turn comes: %s", task_id, why)
