"""The ids of jobs and of their framework's messages, and what became of publishes under a key.

A job has the id of its message. A retry, and a job whose id another one has, has one that ends in
it. So a publish that finds its key taken can name the message that holds it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from fairqueue._types import JobId, Outcome
from fairqueue._validation import new_job_id

REMEMBERED = 1000
LONGEST_JOB_ID = 200  # bytes
_OTHER = re.compile(r"[A-Za-z0-9_]{16}~(.+)", re.DOTALL)

T = TypeVar("T")


def job_ids(message_id: str, *, start: str | None = None) -> tuple[str, str | None]:
    """Return the id of a message's job, and the one that it gets if another job has that.

    The other one begins with ``start``, by default at random. An id that is too long, or no UTF-8,
    is no job's.
    """
    other = start or new_job_id()
    try:
        fits = 0 < len(message_id.encode()) <= LONGEST_JOB_ID
    except UnicodeEncodeError:
        fits = False
    return (message_id, f"{other}~{message_id}") if fits else (other, None)


def message_id_of(job_id: str) -> str:
    """Return the id of the message whose job this is."""
    found = _OTHER.fullmatch(job_id)
    return found[1] if found else job_id


class Latest(OrderedDict[str, T]):
    """What this process has kept of its latest thousand messages, by their ids."""

    def keep(self, message_id: str, value: T) -> None:
        """Keep it, and forget the oldest."""
        self[message_id] = value
        while len(self) > REMEMBERED:
            self.popitem(last=False)


class UniqueOutcomes(Generic[T]):
    """The latest outcomes of this process, each made by ``make(outcome, holder)``.

    The holder is the id of the message that holds the key.
    """

    def __init__(self, make: Callable[[Outcome, str], T]) -> None:
        self._make = make
        self._outcomes: Latest[T] = Latest()

    def remember(self, message_id: str, job: JobId) -> None:
        """Keep what became of a message that was published under a key.

        A repeated publish is one whose reply was lost: the first attempt created the job.
        """
        existing = job.outcome is Outcome.EXISTING
        holder = message_id_of(job) if existing else message_id
        outcome = Outcome.CREATED if job.outcome is Outcome.REPEATED else job.outcome
        self._outcomes.keep(message_id, self._make(outcome, holder))

    def get(self, message_id: str) -> T | None:
        """What became of it; None: it had no key, or 1,000 others came after it."""
        return self._outcomes.get(message_id)
