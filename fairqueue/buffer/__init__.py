"""What a producer does with its publishes while the store is away (``on_unavailable``)."""

from __future__ import annotations

from fairqueue.buffer.outages import Outages
from fairqueue.buffer.spool import DELETE, RETRY, Kept, change, check_folder, read_all, spools_in

__all__ = ["DELETE", "RETRY", "Kept", "Outages", "change", "check_folder", "read_all", "spools_in"]
