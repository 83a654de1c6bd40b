"""Tells what became of a message under a ``unique_key``.

The id of a job under a key ends in its message id, so that a second caller is told of the first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from fairqueue import JobId, Outcome, new_job_id

REMEMBERED = 1000
MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Unique:
    """What became of a message that was sent under a key."""

    outcome: Outcome
    message_id: str
    """The message that holds the key: the one that was just sent, or the existing one."""


_outcomes: OrderedDict[str, Unique] = OrderedDict()


def job_id_for(message_id: str) -> str:
    """A new job's id, that tells its message's."""
    return f"{new_job_id()}.{message_id}"[:MOST_CHARACTERS]


def remember(message_id: str, job: JobId) -> None:
    """Keep what became of it for :func:`unique_outcome`."""
    existing = job.outcome is Outcome.EXISTING
    _outcomes[message_id] = Unique(job.outcome, job.partition(".")[2] if existing else message_id)
    while len(_outcomes) > REMEMBERED:
        _outcomes.popitem(last=False)


def unique_outcome(message: Any) -> Unique | None:
    """What became of a message that this process sent with ``unique_key``, given it or its id.

    Where the outcome is ``existing`` nothing was sent, and no result will ever come for that
    message: ask for ``message.copy(message_id=…)`` with the id that is told here. None: it had no
    key, or 1,000 others came after it.
    """
    return _outcomes.get(getattr(message, "message_id", message))
