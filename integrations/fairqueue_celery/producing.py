"""The way of a message into the core: whose it is, when it may start, whether it may be refused."""

from __future__ import annotations

import logging
import sys
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from kombu.serialization import loads as deserialize
from kombu.utils.json import JSONEncoder

import fairqueue
from fairqueue_celery import crew
from fairqueue_celery.errors import let_through
from fairqueue_celery.unique import Key, key_of, remember
from fairqueue_celery.workspace import Call, noted_call, workspace_of

if TYPE_CHECKING:
    from fairqueue_celery.broker import Broker

logger = logging.getLogger(__name__)

JSON = "application/json"

encoded = JSONEncoder().encode
"""What kombu's own dumps() does, without making an encoder for each message."""


@dataclass(frozen=True)
class Publication:
    """One message as the core wants to know it."""

    workspace: str | None
    task: str
    delay_seconds: float
    exempt: bool
    group: str | None
    job_id: str | None
    expires_seconds: float | None = None
    key: Key | None = None


def publish(broker: Broker, queue: str, message: dict[str, Any], *, priority: int) -> None:
    """Hand one message over to the core; raise CapacityExceeded if it is refused."""
    about = describe(message, broker.settings.workspace_from)
    try:
        _send(broker, queue, message, about, priority=priority)
    except fairqueue.ConfigurationError as error:
        if not about.exempt or about.workspace is None:
            raise
        _tell_instead(about, error)
        _send(broker, queue, message, replace(about, workspace=None), priority=priority)
    broker.kinds.published(queue)


def _send(
    broker: Broker, queue: str, message: dict[str, Any], about: Publication, *, priority: int
) -> None:
    running = fairqueue.current()
    with let_through():
        job = broker.core.publish(
            encoded(message).encode(),
            queue=queue,
            workspace=about.workspace,
            task=about.task,
            priority=priority,
            delay_seconds=about.delay_seconds,
            job_id=_job_id(about, queue),
            exempt=about.exempt,
            group=about.group,
            parent_fence=running.fence if running and running.redeliverable else None,
            expires_seconds=about.expires_seconds,
            unique_key=about.key.text if about.key else None,
            unique_for=about.key.seconds if about.key else None,
            block_seconds=0.0 if running is None and crew.is_worker() else None,
        )
    if about.key is not None:
        remember(about.key, job)


def _job_id(about: Publication, queue: str) -> str | None:
    if about.job_id is None:
        return None
    tail = queue if about.key is None else about.key.task_id
    return f"{about.job_id}.{tail}"[:200]


def _tell_instead(about: Publication, error: fairqueue.ConfigurationError) -> None:
    logger.error(
        "task %r is a retry or continuation and must not be lost: "
        "it is published for the workspace of the running job, since %s",
        about.task,
        error,
    )


def is_task(message: Mapping[str, Any]) -> bool:
    """Whether a message is a task: protocol 2 says so in a header, protocol 1 in the body."""
    headers = message["headers"]
    return "task" in headers or noted_call(headers) is not None


def describe(message: Mapping[str, Any], sources: tuple[str, ...]) -> Publication:
    """Read off a message all that the core wants to know."""
    headers = message["headers"]
    noted = noted_call(headers)
    call, publish_id = noted or (_foreign_call(message, sources), None)
    about = Publication(
        workspace=None,
        task=call.task,
        delay_seconds=_delay_seconds(call.fields.get("eta")),
        exempt=_is_exempt(call.fields),
        group=_group(call),
        job_id=publish_id,
        expires_seconds=_seconds_until(call.fields.get("expires")),
        key=key_of(message, call),
    )
    return replace(about, workspace=_workspace(call, sources, about))


def describe_foreign(
    message: Mapping[str, Any], sources: tuple[str, ...]
) -> tuple[Publication, bool]:
    """The same of a message that was published to another broker, and whether it could be read.

    Raises WorkspaceUnresolved.
    """
    call = _foreign_call(message, sources)
    by_headers = "task" in message["headers"] and all(s.startswith("header:") for s in sources)
    workspace = workspace_of(call, sources)
    about = Publication(
        workspace=workspace,
        task=call.task,
        delay_seconds=_delay_seconds(call.fields.get("eta")),
        exempt=True,
        group=None,
        job_id=None,
    )
    return about, bool(workspace) or by_headers or opened_body(message) is not None


def _workspace(call: Call, sources: tuple[str, ...], about: Publication) -> str | None:
    """Whose it is. What the system must publish goes out also where that cannot be told."""
    try:
        return workspace_of(call, sources)
    except fairqueue.WorkspaceUnresolved as error:
        if not about.exempt:
            raise
        _tell_instead(about, error)
        return fairqueue.current_workspace()


def _is_exempt(fields: Mapping[str, Any]) -> bool:
    """What the system itself must publish: retries, replacements, and what follows a task's body.

    Headers alone cannot tell a continuation from a user's own publish inside a task.
    """
    running = fairqueue.current()
    if running is not None and running.body_returned:
        return True
    return bool(fields.get("retries") or fields.get("replaced_task_nesting"))


def _group(call: Call) -> str | None:
    """The group that is admitted whole; of a chain inside one, only the last task carries it."""
    group = call.fields.get("group")
    if not group and call.chain:
        options = call.chain[0].get("options") or {}
        group = options.get("group_id")
    return str(group) if group else None


def _foreign_call(message: Mapping[str, Any], sources: tuple[str, ...]) -> Call:
    """The call inside a message that this process did not make itself."""
    headers = message["headers"]
    if "task" in headers and all(source.startswith("header:") for source in sources):
        return Call(str(headers["task"]), (), {}, headers, headers)
    body = opened_body(message)
    if isinstance(body, dict) and "task" not in headers:  # protocol 1
        args, kwargs, fields = body.get("args"), body.get("kwargs"), body
    else:
        args, kwargs = body[:2] if isinstance(body, list) and len(body) > 1 else ((), {})
        fields = headers
    task = str(fields.get("task") or "")
    return Call(
        task,
        args if isinstance(args, list) else (),
        kwargs if isinstance(kwargs, dict) else {},
        headers,
        fields,
    )


def opened_body(message: Mapping[str, Any]) -> Any:
    """What stands in a JSON body; None for any other, which is not opened."""
    if message.get("content-type") != JSON or message["headers"].get("compression"):
        return None
    try:
        body = message["body"]
        if message["properties"].get("body_encoding") == "base64":
            body = b64decode(body)
        return deserialize(body, JSON, message.get("content-encoding"), force=True)
    except Exception:  # noqa: BLE001 - whatever a stranger has sent, it goes on unread
        return None


def _delay_seconds(eta: Any) -> float:
    """Seconds until ``eta``; 0 if there is none."""
    return _seconds_until(eta) or 0.0


def _seconds_until(time: Any) -> float | None:
    """By this client's clock, the one that it was reckoned with; None for what is no time."""
    if not time:
        return None
    when = time if isinstance(time, datetime) else _parsed(str(time))
    if when is None:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=_celery_timezone())
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())


def _parsed(text: str) -> datetime | None:
    """None for what is no time: the worker that receives it says so, as with any broker."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def _celery_timezone() -> Any:
    state = sys.modules.get("celery._state")
    return state.get_current_app().timezone if state else timezone.utc
