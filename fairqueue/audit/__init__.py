"""Reads the keys of a namespace as they stand, and checks them against the invariants."""

from __future__ import annotations

from fairqueue._stores.engine import Level, Remark
from fairqueue.audit.checks import Finding, Mended, Repair, audit, certain_findings
from fairqueue.audit.keyspace import Keyspace
from fairqueue.audit.remarks import Checkup, Status
from fairqueue.audit.repairs import can_be_mended, rebuild, remedy_of
from fairqueue.audit.view import Audit

__all__ = [
    "Audit",
    "Checkup",
    "Finding",
    "Keyspace",
    "Level",
    "Mended",
    "Remark",
    "Repair",
    "Status",
    "audit",
    "can_be_mended",
    "certain_findings",
    "rebuild",
    "remedy_of",
]
