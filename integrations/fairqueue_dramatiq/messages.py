"""A message on its way through the core: what is read off it, and what comes back."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from dramatiq.broker import Broker, MessageProxy
from dramatiq.common import q_name
from dramatiq.message import Message

from fairqueue import Job, Lease
from fairqueue_dramatiq.errors import ConfigurationError

logger = logging.getLogger(__name__)

MOST_BROKER_PRIORITY = 255  # AMQP's range
MIDDLE = 2**15  # of the range in which an actor's priority counts


class FairMessage(MessageProxy):
    """A claimed job, as a worker handles it."""

    def __init__(self, message: Message[Any], lease: Lease, *, keeps_exception: bool) -> None:
        super().__init__(message)
        self.lease = lease
        self.disowned = False
        """Its lease is gone: it will run again, so nothing of this run may have an effect."""
        self.void = False
        """Nothing of this run counts: it is disowned, or its job was cancelled."""
        self.dead: str | None = None
        """Why it is to be a dead letter of the core's, once it is rejected."""
        self.running: AbstractContextManager[Any] | None = None
        self._keeps_exception = keeps_exception

    def clear_exception(self) -> None:
        """Forget the exception, save on a StubBroker, whose ``join`` raises it."""
        if not self._keeps_exception:
            super().clear_exception()


class DeadMessage(MessageProxy):
    """The message of a dead job, of which the hooks are told. It is not retried."""

    def __init__(self, message: Message[Any]) -> None:
        super().__init__(message)
        self.options["max_retries"] = 0  # so that Retries sends what on_retry_exhausted names

    def end_with(self, exception: BaseException) -> None:
        """It has failed, for this reason."""
        self.fail()
        self.stuff_exception(exception)


def decoded(job: Job) -> Message[Any]:
    """The message of a job that is due: on its own queue, without a delay.

    Raises DecodeError.
    """
    message = Message.decode(job.payload)
    if "eta" not in message.options:
        return message
    eta = message.options["eta"]
    if not isinstance(eta, int | float | None):
        logger.warning(
            "Invalid eta value for message %r: %r. It runs at once.", message.message_id, eta
        )
    message = message.copy(queue_name=q_name(message.queue_name))
    del message.options["eta"]
    return message


def delay_seconds(message: Any, delay: float | None) -> float:
    """Seconds until it may run: the delay in milliseconds, else what is left until its eta.

    Raises ConfigurationError for a whole number that is beyond all time.
    """
    try:
        if delay is not None:
            return max(0.0, delay / 1000)
        eta = message.options.get("eta")
        if isinstance(eta, int | float):
            return max(0.0, eta / 1000 - time.time())
    except OverflowError:
        raise ConfigurationError(
            f"the delay or eta of message {message.message_id!r} must be milliseconds that a "
            "clock can show"
        ) from None
    return 0.0


def priority_of(broker: Broker, message: Any) -> int:
    """The core's one priority, 0 first: by ``broker_priority``, high first, then the actor's.

    A ``broker_priority`` that is no number counts as none.
    """
    of_broker = message.options.get("broker_priority")
    if not isinstance(of_broker, int | float):
        of_broker = 0
    actor = broker.actors.get(message.actor_name)
    return core_priority(of_broker, actor.priority if actor else 0)


def core_priority(of_broker: float, of_actor: float) -> int:
    """Join a broker's priority (0 to 255, high first) and an actor's (low first)."""
    coarse = MOST_BROKER_PRIORITY - _between(0, of_broker, MOST_BROKER_PRIORITY)
    fine = _between(-MIDDLE, of_actor, MIDDLE - 1) + MIDDLE
    return coarse * 2 * MIDDLE + fine


def _between(least: int, value: float, most: int) -> int:
    return int(max(least, min(value, most)))


def group_of(options: Mapping[str, Any]) -> str | None:
    """The group with completion callbacks that is admitted whole.

    Of a pipeline inside one, only the last message carries it.
    """
    while options:
        if options.get("group_completion_uuid"):
            return str(options["group_completion_uuid"])
        options = (options.get("pipe_target") or {}).get("options") or {}
    return None
