"""What a message, or else its actor, asks of its publish: workspace, unique key, expiry."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from dramatiq.broker import Broker

import fairqueue
from fairqueue import Schedule, adapters
from fairqueue_dramatiq._messages import describe
from fairqueue_dramatiq.errors import ConfigurationError, translated_errors

logger = logging.getLogger("fairqueue_dramatiq.options")

WORKSPACE = "workspace"
"""As an option of a message it comes first; as an option of an actor, after ``workspace_from``."""

SCHEDULE = "schedule"
OPTIONS = frozenset({WORKSPACE, SCHEDULE, "unique_key", "unique_for", "expires", "on_unavailable"})


def check_actor_options(options: Mapping[str, Any], settings: fairqueue.Settings) -> None:
    """Raise ConfigurationError for invalid options of an actor."""
    if not isinstance(options.get(SCHEDULE), Schedule | None):
        raise ConfigurationError(
            f"schedule must be a fairqueue.Schedule, not {options[SCHEDULE]!r:.40}"
        )
    with translated_errors:
        _check_seconds(options)
        if options.get("on_unavailable") is not None:
            adapters.check_on_unavailable(options["on_unavailable"], settings)


def publish_options(broker: Broker, message: Any) -> dict[str, Any]:
    """What the publish of a new message gets of its options; raises ConfigurationError.

    The ``unique_for`` of an actor has no meaning for a message without a key, and is no error.
    """
    options = merged_options(broker, message)
    _check_seconds(options)
    key = options.get("unique_key")
    return {
        "unique_key": None if key is None else adapters.plain_str(key),
        "unique_for": (message.options if key is None else options).get("unique_for"),
        "expires_seconds": _seconds_left(message, options.get("expires")),
        "on_unavailable": options.get("on_unavailable"),
    }


def exempt_options(broker: Broker, message: Any) -> dict[str, Any]:
    """The same of what must not be lost, such as a retry: no key, and no error.

    It expires by the time when the message was created, not by that of the retry.
    """
    expires = merged_options(broker, message).get("expires")
    try:
        return {"expires_seconds": _seconds_left(message, expires)}
    except fairqueue.ConfigurationError as error:
        logger.error(  # noqa: TRY400 - the text says what was done instead
            "%s must not be lost: it is published without expiry, because %s",
            describe(message),
            error,
        )
        return {}


def merged_options(broker: Broker, message: Any) -> dict[str, Any]:
    """The options of a message, else of its actor."""
    actor = broker.actors.get(message.actor_name)
    own = {name: value for name, value in message.options.items() if value is not None}
    return {**(actor.options if actor else {}), **own}


def _check_seconds(options: Mapping[str, Any]) -> None:
    for name in ("unique_for", "expires"):
        value = options.get(name)
        if value is not None and adapters.seconds_from_zero(name, value) == 0 > value:
            raise ConfigurationError(f"{name} must be 0 seconds or more, not {value!r:.40}")


def _seconds_left(message: Any, expires: Any) -> float | None:
    """By the clock of the process that created the message, as Dramatiq's ``max_age``."""
    if expires is None:
        return None
    age_seconds: float = time.time() - message.message_timestamp / 1000
    return max(0.0, adapters.seconds_from_zero("expires", expires) - age_seconds)


@dataclass(frozen=True)
class Call(adapters.Call):
    """One message, as its sender made it."""

    actor: Any
    """None: the broker does not know it."""

    def function(self) -> Callable[..., Any] | None:
        """Return the actor's function."""
        return None if self.actor is None else self.actor.fn

    def of_task(self) -> str | None:
        """Return the actor's option ``workspace``."""
        option = None if self.actor is None else self.actor.options.get(WORKSPACE)
        return None if option is None else adapters.plain_str(option)


def workspace_of(
    broker: Broker, message: Any, core: fairqueue.FairQueue, *, must_publish: bool = False
) -> str | None:
    """The workspace that a message, its actor or the context names; None: the default one.

    Raises WorkspaceUnresolved if a resolver fails or returns an invalid name, or if there is none
    and ``on_missing_workspace`` refuses that, unless the message must not be lost.
    """
    call, missing = _call(broker, message), core.missing_workspace
    return adapters.workspace_to_publish(call, core.settings, missing, must_publish=must_publish)


def workspace_of_call(broker: Broker, message: Any, core: fairqueue.FairQueue) -> str:
    """The same for a call that sends nothing: no error, no warning."""
    return adapters.expected_workspace(_call(broker, message), core.settings)


def _call(broker: Broker, message: Any) -> Call:
    actor = broker.actors.get(message.actor_name)
    return Call(message.actor_name, message.args, message.kwargs, message.options, actor)


def exempt_workspace(broker: Broker, message: Any, core: fairqueue.FairQueue) -> str | None:
    """The workspace of what must not be lost; if it is unresolved, that of the running job."""
    running = adapters.running_job(core.store)
    if running is not None and message.options.get("retries"):
        return running.workspace
    resolve = partial(workspace_of, broker, message, core, must_publish=True)
    return adapters.workspace_or_current(describe(message), resolve)
