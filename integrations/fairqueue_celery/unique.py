"""Idempotency keys: ``task.apply_async(unique_key=…, unique_for=…)``.

The two options travel as properties of the message, which a retry does not carry on. The id of a
job under a key ends in its Celery task id, so that a second caller can be told of the first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairqueue import ConfigurationError, JobId, Outcome
from fairqueue_celery.workspace import Call

REMEMBERED = 1000


@dataclass(frozen=True)
class Key:
    """What a publish is unique by."""

    text: str
    seconds: float | None
    task_id: str


@dataclass(frozen=True)
class Unique:
    """What became of a publish under a key."""

    outcome: Outcome
    task_id: str
    """The task that holds the key: the one that was just sent, or the existing one."""


_outcomes: OrderedDict[str, Unique] = OrderedDict()


def key_of(message: Mapping[str, Any], call: Call) -> Key | None:
    """The key of a publish, taken off its message; raises ConfigurationError for a bad one."""
    properties = message["properties"]
    text, seconds = properties.pop("unique_key", None), properties.pop("unique_for", None)
    if text is None:
        if seconds is not None:
            raise ConfigurationError("unique_for has no meaning without unique_key: give both")
        return None
    try:
        bound = None if seconds is None else float(seconds)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(f"unique_for must be seconds, not {seconds!r}") from None
    return Key(str(text), bound, str(call.fields.get("id") or ""))


def remember(key: Key, job: JobId) -> None:
    """Keep what became of it for :func:`unique_outcome`."""
    held = key.task_id if job.outcome is not Outcome.EXISTING else job.partition(".")[2]
    _outcomes[key.task_id] = Unique(job.outcome, held)
    while len(_outcomes) > REMEMBERED:
        _outcomes.popitem(last=False)


def unique_outcome(result: Any) -> Unique | None:
    """What became of an ``apply_async(unique_key=…)`` of this process, given its result or id.

    Where the outcome is ``existing`` nothing was sent, and nothing will ever come for that
    result: ask for ``task_id`` instead. None: it had no key, or 1,000 others came after it.
    """
    return _outcomes.get(getattr(result, "id", result))
