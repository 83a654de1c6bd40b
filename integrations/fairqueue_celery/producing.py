"""The way of a message into the core: whose it is, when it may start, whether it may be refused."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from kombu.serialization import loads as deserialize
from kombu.utils.json import JSONEncoder

import fairqueue
from fairqueue_celery.errors import WorkspaceUnresolved, let_through
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
        broker.core.publish(
            encoded(message).encode(),
            queue=queue,
            workspace=about.workspace,
            task=about.task,
            priority=priority,
            delay_seconds=about.delay_seconds,
            job_id=about.job_id and f"{about.job_id}.{queue}"[:200],
            exempt=about.exempt,
            group=about.group,
            parent_fence=running.fence if running and running.redeliverable else None,
        )


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
    )
    return replace(about, workspace=_workspace(call, sources, about))


def _workspace(call: Call, sources: tuple[str, ...], about: Publication) -> str | None:
    """Whose it is. What the system must publish goes out also where that cannot be told."""
    try:
        return workspace_of(call, sources)
    except WorkspaceUnresolved as error:
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
    task = str(headers.get("task") or "")
    if all(source.startswith("header:") for source in sources):
        return Call(task, (), {}, headers, headers)
    args, kwargs = _decoded(message)
    return Call(task, args, kwargs, headers, headers)


def _decoded(message: Mapping[str, Any]) -> tuple[Any, Any]:
    """Arguments out of a JSON body; any other body is not opened."""
    if message.get("content-type") != JSON or message["headers"].get("compression"):
        return (), {}
    try:
        body = deserialize(message["body"], JSON, message.get("content-encoding"), force=True)
        args, kwargs = (body["args"], body["kwargs"]) if isinstance(body, dict) else body[:2]
    except Exception:  # noqa: BLE001 - whatever a stranger has sent, it is published unread
        return (), {}
    return args, kwargs


def _delay_seconds(eta: Any) -> float:
    """Seconds until ``eta`` by this client's clock, the one that it was reckoned with."""
    if not eta:
        return 0.0
    when = eta if isinstance(eta, datetime) else _parsed(str(eta))
    if when is None:
        return 0.0
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
