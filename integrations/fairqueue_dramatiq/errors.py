"""The core's errors in a form that Dramatiq lets through.

Only a MiddlewareError leaves a hook, and only a ConnectionClosed makes a consumer reconnect.
"""

from __future__ import annotations

from dramatiq.errors import ConnectionClosed
from dramatiq.middleware import Interrupt, MiddlewareError, SkipMessage

import fairqueue
from fairqueue import adapters


class CapacityExceeded(fairqueue.CapacityExceeded, MiddlewareError):
    """The workspace, queue or total is full: nothing was published. See ``retry_after``."""


class BatchRefused(fairqueue.errors.BatchRefused, CapacityExceeded):
    """Some messages of a batch were refused. See ``stored`` and ``refused``."""


class LeaseLost(fairqueue.LeaseLost, MiddlewareError):
    """The running job no longer holds its lease: what it publishes is refused."""


class ConfigurationError(fairqueue.ConfigurationError, MiddlewareError):
    """The middleware cannot serve this broker as it is set up; the text says why."""


class UnknownTask(fairqueue.UnknownTask, ConfigurationError):
    """No living worker of the queue knows this actor: nothing was published."""


class StoreUnavailable(fairqueue.StoreUnavailable, ConnectionClosed):
    """The core's Redis could not be reached or refuses to write.

    If only the reply was lost, the call may have taken effect.
    """


class BatchInterrupted(fairqueue.errors.BatchInterrupted, StoreUnavailable):
    """The core's Redis went away while a batch was sent. See ``stored`` and ``unknown``."""


class JobLost(Exception):
    """Stored as the failure of a dead job: each of its starts ended in a lost worker."""


class JobExpired(SkipMessage):
    """Stored as the failure of a job that expired before it could start."""


class JobCancelled(SkipMessage):
    """Stored as the failure of a job that was cancelled while no worker ran it."""


class RunInterrupt(Interrupt):
    """Raised inside an actor whose run no longer counts."""


class LeaseLostInterrupt(RunInterrupt):
    """The lease is lost: the job will run again, here or elsewhere."""


class CancelledInterrupt(RunInterrupt):
    """The job was cancelled and will not run again."""


translated_errors = adapters.translate_errors(
    {
        fairqueue.CapacityExceeded: CapacityExceeded,
        fairqueue.LeaseLost: LeaseLost,
        fairqueue.ConfigurationError: ConfigurationError,
        fairqueue.StoreUnavailable: StoreUnavailable,
        fairqueue.UnknownTask: UnknownTask,
        fairqueue.errors.BatchRefused: BatchRefused,
        fairqueue.errors.BatchInterrupted: BatchInterrupted,
    },
)
"""A context in which the core's errors are raised as the errors above."""
