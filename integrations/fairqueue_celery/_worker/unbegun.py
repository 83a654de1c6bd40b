"""Gives back what a pool was given and does not begin, since its processes may hang."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from fairqueue import LeaseLost
from fairqueue_celery._channel.broker import Broker
from fairqueue_celery._consume.held_lease import HeldLease
from fairqueue_celery._consume.shared_memory import runs

logger = logging.getLogger("fairqueue_celery.worker")

LEASES = 3
"""How many leases a job may wait for its process to begin it."""


def give_back_unbegun(broker: Broker, pool: object) -> None:
    """Give back what has waited in this pool for some leases; no delivery is counted.

    That a lease is renewed only shows that the main process lives. At one call the job is
    withdrawn, so that no process may begin it; at the next one, if none had begun it by then, it
    goes back. It occupies the pool until the pool has passed it.
    """
    oldest = time.monotonic() - LEASES * broker.settings.lease_seconds
    for held in broker.leases.all():
        if held.pool is pool and held.waits_in_pool and held.held_since < oldest:
            _give_back(broker, held)


def _give_back(broker: Broker, held: HeldLease) -> None:
    has_begun = runs.has_begun(held.fence)
    if has_begun and held.withdrawn:
        broker.leases.keep(held)
    elif not has_begun and not held.withdrawn:
        broker.leases.withdraw(held)
    elif not has_begun:
        with suppress(LeaseLost):
            broker.core.release(held.lease)
        held.given_back = True
        logger.warning(
            "no process of the pool has begun %s within %.0f s, so its job is given back; "
            "what do the worker's processes do?",
            held.request,
            time.monotonic() - held.held_since,
        )
