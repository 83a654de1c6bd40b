"""Idempotency keys: ``task.apply_async(unique_key=…, unique_for=…)``.

The two options travel as properties of the message, which a retry does not carry on. The id of a
job under a key ends in its Celery task id, so that a second caller can find the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fairqueue import Outcome, adapters

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


def key_of(message: Mapping[str, Any]) -> tuple[str | None, Any]:
    """The key of a publish, and for how long it holds, which the core checks; text is a number's.

    They stay in the properties, which kombu uses again when it repeats a publish.
    """
    properties = message["properties"]
    text, seconds = properties.get("unique_key"), properties.get("unique_for")
    if isinstance(seconds, str):
        with suppress(ValueError):
            seconds = float(seconds)
    return None if text is None else adapters.plain_str(text), seconds
