"""Outcomes of publishes under a unique key, by the framework's own message ids.

A job under a key has an id that ends in the id of its message, so a publish that finds the key
taken can name the message that holds it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from fairqueue._types import JobId, Outcome
from fairqueue._validation import new_job_id

REMEMBERED = 1000
LONGEST_JOB_ID = 200  # characters

T = TypeVar("T")


def job_id_ending_in(tail: str, *, start: str | None = None) -> str:
    """A job id that ends in ``tail``; it starts with ``start``, else with a new random id."""
    return f"{start or new_job_id()}.{tail}"[:LONGEST_JOB_ID]


_RANDOM = re.compile(r"\w{16}\.(.+)", re.DOTALL)
"""An id as :func:`job_id_ending_in` makes it."""


def job_ids(message_id: str) -> tuple[str | None, str | None]:
    """The id of the job of a framework's message, and its other one, if another job has that."""
    try:
        fits = 0 < len(message_id.encode()) <= LONGEST_JOB_ID
    except UnicodeEncodeError:
        fits = False
    return (message_id, job_id_ending_in(message_id)) if fits else (None, None)


def message_id_of(job_id: str) -> str:
    """The id of the framework's message whose job this is."""
    found = _RANDOM.fullmatch(job_id)
    return found[1] if found else job_id


class JobIds:
    """The ids of jobs that this process has published last, where their messages have others."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, str] = OrderedDict()

    def remember(self, message_id: str, job_id: str) -> None:
        """Keep the id of the job of a message."""
        if job_id != message_id:
            self._ids[message_id] = job_id
            while len(self._ids) > REMEMBERED:
                self._ids.popitem(last=False)

    def get(self, message_id: str) -> str:
        """The id of the job of a message."""
        return self._ids.get(message_id, message_id)


class UniqueOutcomes(Generic[T]):
    """The latest outcomes of this process, each made by ``make(outcome, holder)``.

    The holder is the id of the message that holds the key.
    """

    def __init__(self, make: Callable[[Outcome, str], T]) -> None:
        self._make = make
        self._outcomes: OrderedDict[str, T] = OrderedDict()

    def remember(self, message_id: str, job: JobId) -> None:
        """Keep the outcome of a message that was published under a key.

        A repeated publish is one whose reply was lost: the first attempt created the job.
        """
        existing = job.outcome is Outcome.EXISTING
        holder = message_id_of(job) if existing else message_id
        outcome = Outcome.CREATED if job.outcome is Outcome.REPEATED else job.outcome
        self._outcomes[message_id] = self._make(outcome, holder)
        while len(self._outcomes) > REMEMBERED:
            self._outcomes.popitem(last=False)

    def get(self, message_id: str) -> T | None:
        """Return its outcome; None: it had no key, or 1,000 others came after it."""
        return self._outcomes.get(message_id)
