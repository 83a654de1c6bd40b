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
OF_CONTROL = ".pidbox"
"""How the name of an exchange of remote control ends."""

MOST_SECONDS = 2.0
"""For how long one command looks for jobs; it looks in every workspace for each."""


def withdraw_revoked(core: FairQueue, channel: Any, exchange: str, message: Any) -> None:
    """Withdraw what a command of remote control revokes; the workers have the command already."""
    if not exchange.endswith(OF_CONTROL):
        return
    body = channel.decode_body(message["body"], message["properties"].get("body_encoding"))
    kind, encoding = message["content-type"], message["content-encoding"]
    command = loads(body, kind, encoding, force=True)  # this process has written it
    if command["method"] not in COMMANDS:
        return
    until = time.monotonic() + MOST_SECONDS
    left = [str(task_id) for task_id in maybe_list(command["arguments"].get("task_id")) or ()]
    try:
        while left and time.monotonic() < until:
            core.jobs.withdraw(left.pop())
    except FairQueueError as error:
        logger.info("tasks that are revoked when their turn comes: %d; %s", len(left) + 1, error)
    else:
        if left:
            logger.info("tasks that are revoked when their turn comes: %d", len(left))
