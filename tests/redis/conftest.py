"""Warnings that redis-py 4 causes are ignored in these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

OLDEST_CLEAN = 5


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """redis-py 4 leaves a socket to the garbage collector when no server answers on it.

    The warning appears in whichever test is running when the collector frees it.
    """
    if int(redis.__version__.split(".")[0]) >= OLDEST_CLEAN:
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for theirs in ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{theirs}"))
