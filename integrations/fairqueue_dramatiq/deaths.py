"""Tells of jobs that died or expired in the core, where Dramatiq knows nothing of it.

A worker calls the hooks that Dramatiq calls for an actor that has failed for good: ``Results``
stores the exception, ``on_failure`` and ``on_retry_exhausted`` are sent. What has expired fares as
by AgeLimit.
"""

from __future__ import annotations

import logging

from dramatiq.broker import Broker
from dramatiq.middleware import MiddlewareError, SkipMessage

from fairqueue import DeadLetter
from fairqueue_dramatiq.errors import JobExpired, JobLost
from fairqueue_dramatiq.messages import DeadMessage, decoded

logger = logging.getLogger(__name__)


def tell(broker: Broker, letter: DeadLetter) -> bool:
    """Call the hooks for a dead job, as for one that has ended; raises DecodeError.

    False: its actor is none of this broker's.
    """
    if letter.job.task not in broker.actors:
        return False
    message = DeadMessage(decoded(letter.job))
    _expire(broker, message) if letter.reason == "expired" else _fail(broker, message, letter)
    broker.emit_before("nack", message)
    broker.emit_after("nack", message)
    return True


def _expire(broker: Broker, message: DeadMessage) -> None:
    """What AgeLimit makes a worker do with a message that is too old."""
    _begin(broker, message)
    message.end_with(JobExpired("it had expired before it could start"))
    broker.emit_after("skip_message", message)


def _fail(broker: Broker, message: DeadMessage, letter: DeadLetter) -> None:
    skipped = _begin(broker, message)
    if skipped is not None:
        message.end_with(skipped)
        broker.emit_after("skip_message", message)
        return
    lost = JobLost(
        f"every one of its {letter.deliveries} starts ended in a lost worker; the job is kept as "
        f"a dead letter of workspace {letter.job.workspace!r} ({letter.job.id})"
    )
    try:
        raise lost  # Retries writes its traceback
    except JobLost:
        message.end_with(lost)
        broker.emit_after("process_message", message, exception=lost)


def _begin(broker: Broker, message: DeadMessage) -> SkipMessage | None:
    """What comes before an actor: middleware that counts or opens does it in pairs."""
    try:
        broker.emit_before("process_message", message)
    except SkipMessage as skipped:
        return skipped
    except MiddlewareError as error:
        logger.info("a middleware refused dead message %r: %s", message.message_id, error)
    return None
