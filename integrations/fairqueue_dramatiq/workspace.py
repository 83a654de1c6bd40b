"""Tells which workspace a message belongs to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from dramatiq.broker import Broker

import fairqueue

logger = logging.getLogger(__name__)

OPTION = "workspace"
"""As an option of a message it comes first; as an option of an actor, after ``workspace_from``."""


def workspace_of(broker: Broker, message: Any, sources: Sequence[str]) -> str | None:
    """The workspace that a message, its actor or its surroundings name; None: nobody does.

    Raises WorkspaceUnresolved where a resolver raises, or gives what cannot be a name.
    """
    call = fairqueue.Call(message.actor_name, message.args, message.kwargs, message.options)
    named = fairqueue.named_workspace(call, sources)
    if named is not None:
        return named
    actor = broker.actors.get(message.actor_name)
    if actor is not None and actor.options.get(OPTION) is not None:
        return str(actor.options[OPTION])
    return fairqueue.current_workspace()


def workspace_in_any_case(broker: Broker, message: Any, sources: Sequence[str]) -> str | None:
    """The same for what must not be lost: where it cannot be told, that of the running job."""
    running = fairqueue.current()
    if running is not None and message.options.get("retries"):
        return running.workspace
    try:
        return workspace_of(broker, message, sources)
    except fairqueue.WorkspaceUnresolved as error:
        tell_instead(message, error)
        return fairqueue.current_workspace()


def tell_instead(message: Any, error: Exception) -> None:
    """Log that a message goes out although its workspace cannot be told."""
    logger.error(
        "message %r of actor %r must not be lost: it is published for the workspace of the "
        "running job, or the default one, since %s",
        message.message_id,
        message.actor_name,
        error,
    )
