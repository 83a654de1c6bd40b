"""Tells Celery of a job that ended in the core, from the message that the core kept of it."""

from __future__ import annotations

import logging
from typing import Any

from celery import signals
from celery.worker.request import Request
from celery.worker.strategy import proto1_to_proto2
from kombu.serialization import prepare_accept_content
from kombu.transport import virtual
from kombu.utils.json import loads

logger = logging.getLogger(__name__)


class UnknownTask(LookupError):
    """This worker's app has no such task."""


class _Codec:
    """All that a message needs of its channel."""

    codecs = virtual.Channel.codecs
    decode_body = virtual.Channel.decode_body


def request_of(app: Any, payload: bytes) -> Any:
    """The job as Celery would have received it; its body is decoded as the app accepts it.

    Raises UnknownTask if its task is none of this app's.
    """
    raw = loads(payload)
    accept = prepare_accept_content(app.conf.accept_content)
    message = virtual.Message(raw, channel=_Codec(), accept=accept)
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
