"""The known differences of kombu's own tests between fairqueue:// and redis://, with reasons.

The run fails for a difference that is not listed, and for a listed one that does not occur.
"""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "TestBasic::test_failed_connection__ConnectionError": (
        "a server that is not there raises fairqueue.StoreUnavailable, which is one of the "
        "transport's connection_errors as well; the test asks for redis-py's own class"
    ),
    "TestFailover::test_failover_switches_to_alternate_url": (
        "the transport reads its URL itself, settings in the query included, so kombu keeps it "
        "whole and conn.port is not parted before the first failover; it does switch"
    ),
}
"""Class and test -> the reason."""

FEWEST_ON_STOCK = 68
"""This many pass on redis://; with fewer the run proves nothing."""
