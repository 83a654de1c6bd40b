"""How a publish waits for capacity before it is rejected."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import uniform
from typing import TypeGuard, TypeVar

from fairqueue._settings import Settings
from fairqueue._stores.store import StoreBase
from fairqueue._types import Admission, Job, JobId
from fairqueue._validation import seconds_from_zero
from fairqueue.errors import CapacityExceeded, FairQueueError

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0
JITTER = (0.5, 1.0)  # so that waiting publishers do not retry at the same moment

T = TypeVar("T")


def wait_seconds(settings: Settings, requested: float | None) -> float:
    """Return how long a publish may wait: as requested, else the setting; 0: not at all.

    Raises ConfigurationError if no time was requested.
    """
    if requested is not None:
        return seconds_from_zero("block_seconds", requested)
    return settings.block_seconds if settings.on_full == "block" else 0.0


def retry_while_full(publish: Callable[[float], T], *, within_seconds: float) -> T:
    """Publish until it is accepted; raise CapacityExceeded once the time is up.

    ``publish`` gets the seconds waited so far. Between attempts nothing is held: no lock, no
    connection, no position in any order. Pauses are short, because ``retry_after`` is an estimate
    of at least one second and because a sleeping thread cannot be interrupted. The last attempt
    is made when the time is up. Jobs that exceed the capacity itself are refused at once.
    """
    begun, pause = time.monotonic(), FIRST_PAUSE_SECONDS
    waited = 0.0
    while True:
        try:
            return publish(waited)
        except CapacityExceeded as error:
            left = begun + within_seconds - time.monotonic()
            if left <= 0 or error.never_fits:
                raise
        time.sleep(min(left, pause * uniform(*JITTER)))  # noqa: S311 - no secret
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        waited = time.monotonic() - begun


def _may_fit(outcome: object) -> TypeGuard[CapacityExceeded]:
    """Whether a capacity refused it, and may accept it later."""
    return isinstance(outcome, CapacityExceeded) and not outcome.never_fits


def waited(job: Job, seconds: float) -> Job:
    """Return the job with delay and expiry reduced by the seconds it has waited for capacity."""
    expires = job.expires_seconds
    return replace(
        job,
        delay_seconds=max(0.0, job.delay_seconds - seconds),
        expires_seconds=None if expires is None else max(0.0, expires - seconds),
    )


def publish_refused_again(
    store: StoreBase,
    pairs: Sequence[tuple[Job, Admission]],
    outcomes: Sequence[JobId | FairQueueError],
    *,
    within_seconds: float,
) -> list[JobId | FairQueueError]:
    """Publish jobs that a capacity refused until they are accepted, or the time is up."""
    done = list(outcomes)

    def again(seconds: float) -> None:
        refused = [at for at, outcome in enumerate(done) if _may_fit(outcome)]
        if seconds:
            some = [(waited(pairs[at][0], seconds), pairs[at][1]) for at in refused]
            for at, outcome in zip(refused, store.publish_many(some), strict=True):
                done[at] = outcome
        for outcome in done:
            if _may_fit(outcome):
                raise outcome

    with suppress(CapacityExceeded):
        retry_while_full(again, within_seconds=within_seconds)
    return done
