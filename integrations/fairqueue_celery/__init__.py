"""Fair, multi-tenant queues for Celery: the ``fairqueue://`` broker.

An app needs no import of this package: its broker URL is enough. A bare ``kombu.Connection`` in
a frozen application, where entry points are lost, imports it to make the scheme known.
"""

from __future__ import annotations

from fairqueue import WorkspaceUnresolved
from fairqueue_celery.errors import CapacityExceeded, LeaseLost
from fairqueue_celery.reaching import queue_of
from fairqueue_celery.supported import check_versions
from fairqueue_celery.unique import Unique, unique_outcome
from fairqueue_kombu_alias import add_aliases

check_versions()
add_aliases()

__all__ = [
    "CapacityExceeded",
    "LeaseLost",
    "Unique",
    "WorkspaceUnresolved",
    "queue_of",
    "unique_outcome",
]
