"""A job has the id of its framework's message, unless another job has that id already.

A framework may send a message twice, and a retry has the id of its first run: each is a job, whose
own id then ends in the message's.
"""

from __future__ import annotations

from dataclasses import replace

from fairqueue._stores.store import AnyStore
from fairqueue._types import Admission, Job, Outcome, Published


def under_another_id(
    store: AnyStore, pair: tuple[Job, Admission], published: object
) -> tuple[Job, Admission] | None:
    """Return what is to be published as another job; None: this one is stored, or was refused.

    The client sends a call again whose reply was lost: then it is stored in the same words. A
    framework's next try may have others, so of that what is stored is taken for this one.
    """
    job, admission = pair
    other_id = admission.other_id if admission.is_new and not admission.tick else None
    is_repeated = isinstance(published, Published) and published.outcome is Outcome.REPEATED
    if not is_repeated or not other_id or store.is_stored(job):
        return None
    return replace(job, id=other_id), replace(admission, other_id=None)
