"""Fair, multi-tenant queues for Celery: the ``fairqueue://`` broker.

An app needs no import of this package: its broker URL is enough. A bare ``kombu.Connection`` in
a frozen application, where entry points are lost, imports it to make the scheme known.
"""

from __future__ import annotations

from fairqueue_celery.errors import CapacityExceeded, LeaseLost, WorkspaceUnresolved
from fairqueue_kombu_alias import add_aliases

add_aliases()

__all__ = ["CapacityExceeded", "LeaseLost", "WorkspaceUnresolved"]
