"""What a publish raises, in a form that reaches the caller.

kombu retries and wraps connection errors; a subclass of its own OperationalError it raises
unchanged after one call.
"""

from __future__ import annotations

from kombu.exceptions import OperationalError

import fairqueue
from fairqueue import adapters


class CapacityExceeded(fairqueue.CapacityExceeded, OperationalError):
    """The workspace, queue or total is full; nothing was published. See ``retry_after``."""


class LeaseLost(fairqueue.LeaseLost, OperationalError):
    """The running job has lost its lease, so what it publishes is refused."""


class BatchRefused(fairqueue.errors.BatchRefused, CapacityExceeded):
    """Some tasks of a batch were refused. See ``stored`` and ``refused``."""


class BatchInterrupted(fairqueue.errors.BatchInterrupted, OperationalError):
    """The store went away while a batch was sent. See ``stored`` and ``unknown``."""


let_through = adapters.translate_errors(
    {
        fairqueue.CapacityExceeded: CapacityExceeded,
        fairqueue.LeaseLost: LeaseLost,
        fairqueue.errors.BatchRefused: BatchRefused,
        fairqueue.errors.BatchInterrupted: BatchInterrupted,
    },
)
"""A context in which the core's errors are raised as the errors above."""
