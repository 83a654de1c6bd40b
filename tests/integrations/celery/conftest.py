"""Celery and kombu leave sockets of a producer to the garbage collector; that is theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

THEIRS = (
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:Call to 'get_connection' function:DeprecationWarning",  # of kombu before 5.5
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let only these through, and only here."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for theirs in THEIRS:
                item.add_marker(pytest.mark.filterwarnings(theirs))
