"""The core's errors in a form that Dramatiq lets through.

Only a MiddlewareError leaves a hook; only a ConnectionClosed makes a consumer come again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import Interrupt, MiddlewareError, SkipMessage

import fairqueue


class CapacityExceeded(fairqueue.CapacityExceeded, MiddlewareError):
    """The workspace, queue or total is full: nothing was published. See ``retry_after``."""


class LeaseLost(fairqueue.LeaseLost, MiddlewareError):
    """The running job no longer holds its lease: what it publishes is refused."""


class ConfigurationError(fairqueue.ConfigurationError, MiddlewareError):
    """The middleware cannot serve this broker as it is set up; the text says why."""


class StoreUnavailable(fairqueue.StoreUnavailable, ConnectionClosed):
    """The core's Redis could not be reached or refuses to write; nothing was changed."""


class JobLost(Exception):
    """The job is dead: each of its starts ended in a lost worker. Told in its place."""


class JobExpired(SkipMessage):
    """The job has expired before it could start. Told in its place."""


class RunInterrupt(Interrupt):
    """Raised inside an actor of which nothing more will count."""


class LeaseLostInterrupt(RunInterrupt):
    """Its lease is lost: the job will run again, here or elsewhere."""


class CancelledInterrupt(RunInterrupt):
    """Its job was cancelled: it ends here."""


@contextmanager
def let_through() -> Iterator[None]:
    """Raise the core's errors as the errors above."""
    try:
        yield
    except fairqueue.CapacityExceeded as refused:
        raise CapacityExceeded(*refused.args) from None
    except fairqueue.LeaseLost as lost:
        raise LeaseLost(*lost.args) from None
    except fairqueue.StoreUnavailable as error:
        raise StoreUnavailable(str(error)) from error
