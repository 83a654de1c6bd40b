"""For tests with real workers: those of greenlets are skipped if their package is not installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.nodes import Spread, spread
from tests.system.needs import needs


@pytest.fixture
def servers() -> Iterator[Spread]:
    """Two servers, each with one shard."""
    with spread() as pair:
        yield pair


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look at the pool, or the command, that a test is parametrized with."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for package in ("gevent", "eventlet"):
        if {package, f"dramatiq-{package}"} & {parameters.get("pool"), parameters.get("command")}:
            needs(package)
