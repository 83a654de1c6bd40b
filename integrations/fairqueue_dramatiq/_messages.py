"""Messages on their way through the core: what is read from them, and what comes back."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Mapping
from typing import Any

from dramatiq.broker import Broker, MessageProxy
from dramatiq.errors import DecodeError
from dramatiq.message import Message
from dramatiq.middleware import SkipMessage

from fairqueue import Job, JobContext, Lease
from fairqueue.adapters import TracedRun, wrong_kind
from fairqueue_dramatiq.errors import ConfigurationError

logger = logging.getLogger("fairqueue_dramatiq.messages")

MAX_BROKER_PRIORITY = 255  # AMQP's range
ACTOR_PRIORITIES = 2**16  # those that are distinguished: from -2**15 to 2**15 - 1

PUBLISH_ID = "fairqueue_publish_id"
"""An option of a stored message, as RedisBroker has one: the same message may be sent twice."""


FIELDS: dict[str, Any] = {
    "queue_name": str,
    "actor_name": str,
    "args": list | tuple,
    "kwargs": dict,
    "options": dict,
    "message_id": str,
    "message_timestamp": int | float,
}
OPTIONS = dict.fromkeys(
    ("retries", "max_retries", "min_backoff", "max_backoff", "time_limit", "max_age"),
    int | float | None,
)


class LeasedMessage(MessageProxy):
    """A claimed job, as a worker handles it."""

    def __init__(self, message: Message[Any], lease: Lease, *, keeps_exception: bool) -> None:
        super().__init__(message)
        self.lease = lease
        self.settled = False
        """Dramatiq has acked or rejected it."""
        self.begun = False
        """Its run has begun."""
        self.lost = False
        """Its lease is lost: it will run again, so this run must have no effect."""
        self.skipped = False
        """Its run has ended in SkipMessage."""
        self.suspended = False
        """Its actor waits for a child: it goes back until that has ended, and counts as lost."""
        self.discarded = False
        """This run does not count: the lease is lost, or the job was cancelled."""
        self.dead_letter_reason: str | None = None
        """Set if the job becomes a dead letter of the core once Dramatiq rejects it."""
        self.run: tuple[JobContext, Any] | None = None
        """The running job, and what ends its context."""
        self.trace: TracedRun | None = None
        """Its run's span."""
        self.keeps_exception = keeps_exception
        """On a StubBroker, whose ``join`` raises it."""

    @property
    def _message(self) -> Message[Any]:
        """What it stands for; a middleware may replace it, as to decrypt its arguments."""
        return self._given

    @_message.setter
    def _message(self, message: Message[Any]) -> None:
        self._given = message
        self.__dict__.update(vars(message))  # else each look at a field calls __getattr__

    @property
    def error(self) -> BaseException | None:
        """What its run has raised."""
        return self._exception  # type: ignore[no-any-return]

    def failure(self) -> str:
        """The traceback of the error that ended it; empty: there was none, or it was skipped."""
        error = self._exception
        if error is None or isinstance(error, SkipMessage):
            return ""
        return "".join(traceback.format_exception(type(error), error, error.__traceback__))

    def clear_exception(self) -> None:
        """Forget the exception, unless it is kept."""
        if not self.keeps_exception:
            super().clear_exception()


class DeadMessage(MessageProxy):
    """The message of a dead job, for the hooks. It is not retried."""

    def __init__(self, message: Message[Any]) -> None:
        super().__init__(message)
        self.options["max_retries"] = 0  # so that Retries sends what on_retry_exhausted names

    def fail_with(self, exception: BaseException) -> None:
        """Mark it as failed, for this reason."""
        self.fail()
        self.stuff_exception(exception)


def decode_job(job: Job) -> Message[Any]:
    """The message of a job that is due: on its own queue, without a delay.

    Raises DecodeError.
    """
    message = decode_payload(job.payload)
    if message.queue_name != job.queue:
        message = message.copy(queue_name=job.queue)  # its worker looks for the queue's consumer
    message.options.pop(PUBLISH_ID, None)
    eta = message.options.pop("eta", None)
    if not isinstance(eta, int | float | None):
        logger.warning(  # begins as Dramatiq's own warning does
            "Invalid eta value for message %r: %r. It runs now.", message.message_id, eta
        )
    return message


def decode_payload(payload: bytes) -> Message[Any]:
    """Decode and check what Dramatiq relies on: a wrong value would end a worker's thread."""
    try:
        message = Message.decode(payload)
        wrong = _what_is_wrong(message)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise DecodeError(f"this is no message of Dramatiq: {error!r}", payload, error) from error
    if wrong is not None:
        raise DecodeError(wrong, payload, ValueError(wrong))
    return message


def _what_is_wrong(message: Message[Any]) -> str | None:
    found = {name: getattr(message, name) for name in FIELDS}
    wrong = wrong_kind(found, FIELDS) or wrong_kind(message.options, OPTIONS, whose="its option")
    if wrong is not None:
        return wrong
    return None if _are_errors(message.options.get("throws")) else "its option throws is no error"


def _are_errors(given: Any) -> bool:
    if given is None:
        return True
    errors = given if isinstance(given, list | tuple) else (given,)
    return all(isinstance(error, type) and issubclass(error, BaseException) for error in errors)


def describe(message: Any) -> str:
    """The message as log lines name it."""
    return f"message {message.message_id!r} of actor {message.actor_name!r}"


def delay_seconds(message: Any, delay: float | None) -> float:
    """Seconds until it may run: the delay in milliseconds, else the time left until its eta.

    Raises ConfigurationError for a whole number that no float can hold.
    """
    try:
        if delay is not None:
            return max(0.0, delay / 1000)
        eta = message.options.get("eta")
        if isinstance(eta, int | float):
            return max(0.0, eta / 1000 - time.time())
    except OverflowError:
        raise ConfigurationError(
            f"the delay or eta of message {message.message_id!r} is out of range: "
            "give milliseconds that fit a float"
        ) from None
    return 0.0


def priority_of(broker: Broker, message: Any) -> int:
    """The core's one priority, 0 first: by ``broker_priority``, high first, then the actor's.

    A ``broker_priority`` that is not a number is ignored.
    """
    of_broker = message.options.get("broker_priority")
    if not isinstance(of_broker, int | float):
        of_broker = 0
    actor = broker.actors.get(message.actor_name)
    return core_priority(of_broker, actor.priority if actor else 0)


def core_priority(of_broker: float, of_actor: float) -> int:
    """Combine a broker's priority (0 to 255, high first) with an actor's (low first)."""
    middle = ACTOR_PRIORITIES // 2
    coarse = MAX_BROKER_PRIORITY - int(max(0, min(of_broker, MAX_BROKER_PRIORITY)))
    fine = int(max(-middle, min(of_actor, middle - 1))) + middle
    return coarse * ACTOR_PRIORITIES + fine


def group_of(options: Mapping[str, Any]) -> str | None:
    """The group with completion callbacks, which is admitted whole.

    Of a pipeline inside such a group, only the last message carries it.
    """
    while options:
        if options.get("group_completion_uuid"):
            return str(options["group_completion_uuid"])
        options = (options.get("pipe_target") or {}).get("options") or {}
    return None
