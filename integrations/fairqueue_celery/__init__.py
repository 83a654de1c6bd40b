"""Fair queues for Celery with limits per workspace: the ``fairqueue://`` broker.

An app needs no import of this package: its broker URL is enough. A bare ``kombu.Connection``, and
a frozen application, where entry points are lost, import it to make the scheme known.
"""

from __future__ import annotations

from fairqueue import WorkspaceUnresolved
from fairqueue.adapters import needs_extra

with needs_extra("fairqueue_celery", "celery"):
    import kombu  # noqa: F401 - an extra
from fairqueue_celery._channel.broker import queue_of
from fairqueue_celery._config.versions import check_versions
from fairqueue_celery._publish.batch import batch
from fairqueue_celery._publish.publish import job_of, unique_outcome
from fairqueue_celery._publish.unique import Unique
from fairqueue_celery._schedules import schedules_of
from fairqueue_celery.errors import BatchInterrupted, BatchRefused, CapacityExceeded, LeaseLost
from fairqueue_kombu_alias import add_aliases

check_versions()
add_aliases()

__all__ = [
    "BatchInterrupted",
    "BatchRefused",
    "CapacityExceeded",
    "LeaseLost",
    "Unique",
    "WorkspaceUnresolved",
    "batch",
    "job_of",
    "queue_of",
    "schedules_of",
    "unique_outcome",
]
