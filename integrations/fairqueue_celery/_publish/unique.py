"""Idempotency keys: ``task.apply_async(unique_key=…, unique_for=…)``.

The two options travel as properties of the message, which a retry does not carry on. The id of a
job under a key ends in its Celery task id, so that a second caller can find the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairqueue import ConfigurationError, Outcome

OPTIONS = ("unique_key", "unique_for")


@dataclass(frozen=True)
class Unique:
    """What became of a publish under a key."""

    outcome: Outcome
    task_id: str
    """The task that holds the key: the one that was just sent, or the existing one."""


def without_key(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message as it is stored."""
    properties = message["properties"]
    if "unique_key" not in properties and "unique_for" not in properties:
        return message
    kept = {name: value for name, value in properties.items() if name not in OPTIONS}
    return {**message, "properties": kept}


def key_of(message: Mapping[str, Any]) -> tuple[str | None, float | None]:
    """The key of a publish, and for how long it holds; raises ConfigurationError for a bad one.

    They stay in the properties, which kombu uses again when it repeats a publish.
    """
    properties = message["properties"]
    text, seconds = properties.get("unique_key"), properties.get("unique_for")
    if text is None:
        if seconds is not None:
            raise ConfigurationError("unique_for has no meaning without unique_key: give both")
        return None, None
    try:
        return str(text), None if seconds is None else float(seconds)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(f"unique_for must be seconds, not {seconds!r}") from None
