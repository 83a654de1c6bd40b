"""Reads the keys of a namespace as they stand, and checks them against the invariants."""

from __future__ import annotations

from fairqueue.audit.checks import Finding, audit, findings
from fairqueue.audit.keyspace import Keyspace
from fairqueue.audit.view import Audit

__all__ = ["Audit", "Finding", "Keyspace", "audit", "findings"]
