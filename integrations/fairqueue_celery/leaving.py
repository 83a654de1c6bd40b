"""Gives back what a worker still holds when its process ends, however that came about.

After an error that Celery cannot recover from (a child out of memory, say) no callback says how
its tasks ended. But their processes are gone by then, and so nothing of them runs any more.
"""

from __future__ import annotations

import logging

from billiard.util import Finalize

from fairqueue import FairQueueError
from fairqueue_celery.broker import Broker, brokers

logger = logging.getLogger(__name__)

AFTER_THE_CHILDREN = -100
"""billiard ends its children first, then calls finalizers of a priority below zero."""


def at_exit() -> None:
    """Arrange it, in the worker's main process."""
    Finalize(None, _give_back_all, exitpriority=AFTER_THE_CHILDREN)


def _give_back_all() -> None:
    for broker in brokers():
        try:
            _give_back(broker)
        except FairQueueError as error:
            logger.warning("leases are left to expire: %s", error)


def _give_back(broker: Broker) -> None:
    for slot in broker.slots.all():
        if not slot.ended:
            slot.counted = slot.started is not None
            broker.slots.end(slot)
    broker.slots.flush()
