"""Runs Celery's failure path for jobs that ended in the core, where Celery saw no end.

A worker does in its main process what Celery does there for a lost child: the result in the
backend, errbacks, ``on_failure`` and the signal. A job that was cancelled or has expired is
announced as Celery announces a revoked one: REVOKED.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from billiard.exceptions import WorkerLostError
from celery import signals, states
from celery.app.trace import TraceInfo
from celery.worker.request import Request
from celery.worker.strategy import proto1_to_proto2
from kombu.serialization import prepare_accept_content
from kombu.transport import virtual
from kombu.utils.json import loads

from fairqueue import FairQueue
from fairqueue.adapters import FailureReporter, lost_worker_message
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._worker.request import tell_parent

if TYPE_CHECKING:
    from fairqueue import DeadLetter

logger = logging.getLogger("fairqueue_celery.worker")


class UnknownTask(LookupError):
    """This worker's app has no such task."""


class _Codec:
    """What a message needs of its channel."""

    codecs = virtual.Channel.codecs
    decode_body = virtual.Channel.decode_body


def message_of(app: Any, payload: bytes) -> Any:
    """The message of a job, whose body is decoded as the app accepts it."""
    accept = prepare_accept_content(app.conf.accept_content)
    return virtual.Message(loads(payload), channel=_Codec(), accept=accept)


def request_of(app: Any, payload: bytes) -> Any:
    """The job as Celery would have received it; UnknownTask if the app does not have its task."""
    message = message_of(app, payload)
    body, headers = message.body, message.headers
    decoded, utc = False, app.uses_utc_timezone()
    if "task" not in headers:
        body, headers, decoded, utc = proto1_to_proto2(message, message.payload)
    if headers["task"] not in app.tasks:
        raise UnknownTask(headers["task"])
    return Request(message, app=app, body=body, headers=headers, decoded=decoded, utc=utc)


def announce_revoked(request: Any, reason: str, *, expired: bool = False) -> None:
    """What Celery does with a revoked or expired message that it receives: REVOKED, its chord."""
    logger.info("Discarding revoked task: %s[%s]", request.name, request.id)
    context = request._context  # noqa: SLF001
    request.task.backend.mark_as_revoked(
        request.id, reason, request=context, store_result=request.store_errors
    )
    signals.task_revoked.send(
        sender=request.task, request=context, terminated=False, signum=None, expired=expired
    )


def report(app: Any, broker: Broker, letter: DeadLetter) -> bool:
    """Run the failure path of a dead job; False: this app does not have its task."""
    try:
        request = request_of(app, letter.job.payload)
    except UnknownTask:
        return False
    request.task.push_request(request.request_dict)
    try:
        if letter.reason == "expired":
            announce_revoked(request, "expired", expired=True)
        elif letter.reason == "cancelled":
            announce_revoked(request, "revoked")
        else:
            _fail(request, letter)
    finally:
        request.task.pop_request()
    tell_parent(broker, request)
    return True


def _fail(request: Any, letter: DeadLetter) -> None:
    lost = WorkerLostError(lost_worker_message(letter))
    try:
        raise lost  # Celery writes its traceback
    except WorkerLostError as error:
        failure = TraceInfo(states.FAILURE, error)
        failure.handle_error_state(request.task, request._context)  # noqa: SLF001


def reporter(app: Any, broker: Broker, core: FairQueue) -> FailureReporter:
    """Return what reports the failures of a worker's queues."""
    return FailureReporter(core, broker.consumed_queues, partial(report, app, broker))
