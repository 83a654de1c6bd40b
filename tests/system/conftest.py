"""For tests with real workers: those of greenlets are skipped if their package is not installed."""

from __future__ import annotations

import pytest

from tests.system.needs import needs


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look at the pool, or the command, that a test is parametrized with."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for package in ("gevent", "eventlet"):
        if {package, f"dramatiq-{package}"} & {parameters.get("pool"), parameters.get("command")}:
            needs(package)
