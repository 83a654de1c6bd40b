"""What a message, or else its actor, asks of its publish: an idempotency key, an expiry."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dramatiq.broker import Broker

from fairqueue_dramatiq.errors import ConfigurationError

logger = logging.getLogger(__name__)

OPTIONS = frozenset({"unique_key", "unique_for", "expires"})

MOST_SECONDS = sys.float_info.max
"""A message from JSON may hold a whole number that is larger; NaN compares false."""


@dataclass(frozen=True)
class Asked:
    """What a publish asks for beside its workspace."""

    unique_key: str | None = None
    unique_for: float | None = None
    expires_seconds: float | None = None


def check_actor(options: Mapping[str, Any]) -> None:
    """Refuse an actor's options that cannot be; raises ConfigurationError."""
    for name in ("unique_for", "expires"):
        _seconds(name, options.get(name))


def asked(broker: Broker, message: Any) -> Asked:
    """What a new message asks for; raises ConfigurationError."""
    of = _options(broker, message)
    if message.options.get("unique_for") is not None and of("unique_key") is None:
        raise ConfigurationError("unique_for has no meaning without unique_key: give both")
    key = of("unique_key")
    return Asked(
        unique_key=None if key is None else str(key),
        unique_for=None if key is None else _seconds("unique_for", of("unique_for")),
        expires_seconds=_left(message, _seconds("expires", of("expires"))),
    )


def asked_in_any_case(broker: Broker, message: Any) -> Asked:
    """The same for what must not be lost, such as a retry: it takes no key, and is never refused.

    Its time runs from when the message was made, not from the retry.
    """
    try:
        expires = _seconds("expires", _options(broker, message)("expires"))
    except ConfigurationError as error:
        logger.error(  # noqa: TRY400 - it says what was done instead
            "message %r of actor %r must not be lost: it is published without expiry, since %s",
            message.message_id,
            message.actor_name,
            error,
        )
        return Asked()
    return Asked(expires_seconds=_left(message, expires))


def _options(broker: Broker, message: Any) -> Any:
    actor = broker.actors.get(message.actor_name)
    own = {name: value for name, value in message.options.items() if value is not None}
    return {**(actor.options if actor else {}), **own}.get


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{name} must be a number of seconds, not {value!r}")
    if not 0 <= value <= MOST_SECONDS:
        raise ConfigurationError(f"{name} must be seconds from 0, not {value!r:.40}")
    return float(value)


def _left(message: Any, expires: float | None) -> float | None:
    """By the clock of who made the message, as Dramatiq's ``max_age``."""
    if expires is None:
        return None
    age_seconds: float = time.time() - message.message_timestamp / 1000
    return max(0.0, expires - age_seconds)
