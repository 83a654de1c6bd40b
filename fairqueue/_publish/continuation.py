"""Publishes what follows from a job, such as a retry or callback, until the store answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from fairqueue._utils import Throttle
from fairqueue.errors import StoreUnavailable

log = logging.getLogger("fairqueue.publish")

T = TypeVar("T")

RETRY_SECONDS = 0.5
LOG_EVERY_SECONDS = 10.0


def publish_until_answered(publish: Callable[[], T], what: str, gives_up: Callable[[], bool]) -> T:
    """Publish again while the store is away, until ``gives_up()``; then raise StoreUnavailable.

    Only the store knows whether the job's lease has outlived an outage, so it is asked until it
    answers. Each try must be the same publish, under one job id. ``what`` is logged.
    """
    throttle = Throttle(LOG_EVERY_SECONDS)
    while True:
        try:
            return publish()
        except StoreUnavailable as error:
            if gives_up():
                raise
            if throttle.passes():
                log.warning("%s is not stored yet, trying again: %s", what, error)
            time.sleep(RETRY_SECONDS)
