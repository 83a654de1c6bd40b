"""What a publish raises, in a form that Celery and kombu let through at once.

kombu retries and wraps connection errors; a subclass of its own OperationalError reaches the
caller unwrapped after one call, attributes intact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kombu.exceptions import OperationalError

import fairqueue


class CapacityExceeded(fairqueue.CapacityExceeded, OperationalError):
    """The workspace, queue or total is full: nothing was published. See ``retry_after``."""


class LeaseLost(fairqueue.LeaseLost, OperationalError):
    """The running job no longer holds its lease: what it publishes is refused."""


@contextmanager
def let_through() -> Iterator[None]:
    """Raise the core's refusals as the errors above."""
    try:
        yield
    except (CapacityExceeded, LeaseLost):
        raise
    except fairqueue.CapacityExceeded as refused:
        raise CapacityExceeded(*refused.args) from None
    except fairqueue.LeaseLost as lost:
        raise LeaseLost(*lost.args) from None
