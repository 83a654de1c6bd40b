"""Publishes a message that must not be lost, such as a retry or a callback.

Such a message is published even if its workspace is unresolved or its name is invalid, and until
the store answers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from fairqueue._context import current_workspace
from fairqueue._utils import Throttle
from fairqueue._validation import name_or_none
from fairqueue.errors import ConfigurationError, StoreUnavailable

log = logging.getLogger("fairqueue.publish")

T = TypeVar("T")

RETRY_SECONDS = 0.5


def publish_until_answered(publish: Callable[[], T], what: str, gives_up: Callable[[], bool]) -> T:
    """Publish again while the store is away, until ``gives_up()``; then raise StoreUnavailable.

    Only the store knows whether the job's lease has outlived an outage, so it is asked until it
    answers. Each try must be the same publish, under one job id. ``what`` is logged.
    """
    throttle = Throttle()
    while True:
        try:
            return publish()
        except StoreUnavailable as error:
            if gives_up():
                raise
            if throttle.passes():
                log.warning("%s is not stored yet, trying again: %s", what, error)
            time.sleep(RETRY_SECONDS)


def workspace_or_current(what: str, resolve: Callable[[], str | None]) -> str | None:
    """The workspace that ``resolve`` finds, else that of the running job; ``what`` is logged."""
    try:
        return name_or_none("workspace", resolve())
    except ConfigurationError as error:
        log.error(  # noqa: TRY400 - the text says what was done instead
            "%s must not be lost: it is published for the workspace of the running job, or else "
            "the default workspace, because %s",
            what,
            error,
        )
        return current_workspace()
