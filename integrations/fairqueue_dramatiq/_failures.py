"""Reports jobs that ended in the core, where Dramatiq does not see it.

A worker calls the hooks that Dramatiq calls for an actor that has failed for good: ``Results``
stores the exception; ``on_failure`` and ``on_retry_exhausted`` are sent. One that has expired or
was cancelled is treated as AgeLimit treats a message that is too old: it is skipped, and its result
says why.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dramatiq.broker import Broker
from dramatiq.middleware import MiddlewareError, SkipMessage

from fairqueue.adapters import lost_worker_message
from fairqueue_dramatiq._messages import DeadMessage, decode_job
from fairqueue_dramatiq.errors import JobCancelled, JobExpired, JobLost

if TYPE_CHECKING:
    from fairqueue import DeadLetter

logger = logging.getLogger("fairqueue_dramatiq.failures")


def report_failure(broker: Broker, letter: DeadLetter) -> bool:
    """Call the hooks for a dead job; raises DecodeError.

    False: this broker does not have its actor.
    """
    if letter.job.task not in broker.actors:
        return False
    message = DeadMessage(decode_job(letter.job))
    if letter.reason == "expired":
        _emit_skipped(broker, message, JobExpired("it had expired before it could start"))
    elif letter.reason == "cancelled":
        _emit_skipped(broker, message, JobCancelled("it was cancelled before it could start"))
    else:
        _emit_lost(broker, message, letter)
    broker.emit_before("nack", message)
    broker.emit_after("nack", message)
    return True


def _emit_skipped(broker: Broker, message: DeadMessage, why: SkipMessage) -> None:
    """What AgeLimit makes a worker do with a message that is too old."""
    _emit_before_process(broker, message)
    message.fail_with(why)
    broker.emit_after("skip_message", message)


def _emit_lost(broker: Broker, message: DeadMessage, letter: DeadLetter) -> None:
    skipped = _emit_before_process(broker, message)
    if skipped is not None:
        message.fail_with(skipped)
        broker.emit_after("skip_message", message)
        return
    lost = JobLost(lost_worker_message(letter))
    try:
        raise lost  # Retries writes its traceback
    except JobLost:
        message.fail_with(lost)
        broker.emit_after("process_message", message, exception=lost)


def _emit_before_process(broker: Broker, message: DeadMessage) -> SkipMessage | None:
    """Begin: some middleware needs both hooks, to count or to open and close something."""
    try:
        broker.emit_before("process_message", message)
    except SkipMessage as skipped:
        return skipped
    except MiddlewareError as error:
        logger.info("a middleware rejected dead message %r: %s", message.message_id, error)
    return None
