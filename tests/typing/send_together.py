"""A user's program must type-check: batches of both adapters, and what they raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dramatiq.broker import Broker
from typing_extensions import assert_type

import fairqueue
import fairqueue_celery
import fairqueue_dramatiq
from fairqueue import FairQueueError


def send_tasks(app: Any) -> tuple[Sequence[str], Mapping[str, FairQueueError]]:
    """What is refused has the error of each; an interruption says what is stored."""
    try:
        with fairqueue_celery.batch(app):
            pass
    except fairqueue_celery.BatchRefused as error:
        assert_type(error.stored, Sequence[str])
        assert_type(error.refused, Mapping[str, FairQueueError])
        assert_type(error.jobs, int)
        assert_type(error.never_fits, bool)
        return error.stored, error.refused
    except fairqueue_celery.BatchInterrupted as error:
        assert_type(error.unknown, Sequence[str])
    return (), {}


def send_messages(broker: Broker) -> Sequence[str]:
    """Both errors are those of a single message, too."""
    try:
        with fairqueue_dramatiq.batch(broker):
            pass
    except fairqueue_dramatiq.BatchInterrupted as error:
        store: fairqueue.StoreUnavailable = error
        return [*error.stored, *error.unknown, str(store)]
    except fairqueue_dramatiq.BatchRefused as error:
        full: fairqueue.CapacityExceeded = error
        return [*error.refused, str(full.retry_after)]
    return []
