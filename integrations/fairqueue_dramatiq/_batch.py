"""Messages that are sent together: a group, and what ``with batch(broker):`` encloses."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

from dramatiq.broker import Broker
from dramatiq.composition import group

from fairqueue import adapters
from fairqueue_dramatiq._publish import batches
from fairqueue_dramatiq.errors import translated_errors
from fairqueue_dramatiq.middleware import queue_of

WRAPPED = "sent_whole_by_fairqueue"


def batch(broker: Broker) -> AbstractContextManager[None]:
    """Send the messages that are enqueued inside the block together, when it ends.

    One round trip for every hundred. ``after_enqueue`` is emitted for each message that is stored,
    at the end of the block. Groups in it are accepted whole or not at all. After an error in the
    block no message of it is sent.

    The end of the block raises :class:`fairqueue_dramatiq.BatchRefused` for messages that are
    refused, whose ``stored`` and ``refused`` name all of them by id, and
    :class:`fairqueue_dramatiq.BatchInterrupted` if the store goes away. What follows from a running
    job, such as its retry, is sent at once. ConfigurationError: the broker has no
    FairQueueMiddleware.
    """
    queue_of(broker)
    return batches.collect(_send, whole=False)


def _send(collected: adapters.Batch) -> None:
    with translated_errors:
        collected.send()


def send_groups_whole() -> None:
    """Let ``group.run()`` send its messages as one batch, which is accepted whole or not at all."""
    run = group.run
    if getattr(run, WRAPPED, False):
        return

    @functools.wraps(run)
    def run_whole(self: Any, *, delay: int | None = None) -> Any:
        with batches.collect(_send, whole=True):
            return run(self, delay=delay)

    setattr(run_whole, WRAPPED, True)
    group.run = run_whole
