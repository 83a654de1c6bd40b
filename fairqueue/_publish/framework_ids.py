"""A job has the id of its framework's message, unless another job has that id already.

A framework may send a message twice, and a retry has the id of its first run: each is a job, whose
own id then ends in the message's. So a publish that finds its key taken can name the message that
holds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fairqueue._publish.capacity_wait import retry_while_full, waited
from fairqueue._stores.store import StoreBase
from fairqueue._types import Admission, Job, JobId, Outcome
from fairqueue._validation import new_job_id
from fairqueue.errors import (
    CapacityExceeded,
    FairQueueError,
    LeaseLost,
    PublishInterrupted,
    StoreUnavailable,
)

LONGEST_JOB_ID = 200  # bytes
_OTHER = re.compile(r"[A-Za-z0-9_]{16}~(.+)", re.DOTALL)


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


def under_another_id(
    store: StoreBase, pair: tuple[Job, Admission], published: object
) -> tuple[Job, Admission] | None:
    """Return what is to be published as another job; None: this one is stored, or was refused.

    The client sends a call again whose reply was lost: then it is stored in the same words. A
    framework's next try may have others, so of that what is stored is taken for this one.
    """
    job, admission = pair
    other_id = admission.other_id if admission.is_new and not admission.tick else None
    is_repeated = isinstance(published, JobId) and published.outcome is Outcome.REPEATED
    if not is_repeated or not other_id or store.is_stored(job):
        return None
    return replace(job, id=other_id), admission._replace(other_id=None)


def publish_one(store: StoreBase, job: Job, admission: Admission, within_seconds: float) -> JobId:
    """Publish a job until it is accepted or the time is up; under another id if its own is used."""

    def publish(seconds: float) -> JobId:
        return store.publish(waited(job, seconds) if seconds else job, admission)

    published = retry_while_full(publish, within_seconds=within_seconds)
    other = under_another_id(store, (job, admission), published)
    return publish_one(store, *other, within_seconds) if other else published


def publish_known_ids_again(
    store: StoreBase,
    pairs: Sequence[tuple[Job, Admission]],
    outcomes: list[JobId | FairQueueError],
    within_seconds: float,
) -> None:
    """Publish the jobs whose ids are used under others, and put in what became of them.

    Raises PublishInterrupted.
    """
    for n, outcome in enumerate(outcomes):
        try:
            if other := under_another_id(store, pairs[n], outcome):
                outcomes[n] = publish_one(store, *other, within_seconds)
        except StoreUnavailable as error:
            raise PublishInterrupted(str(error), outcomes[:n]) from error
        except (CapacityExceeded, LeaseLost) as error:
            outcomes[n] = error
