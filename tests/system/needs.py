"""Asks for an optional package without importing it into pytest's own process."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(package: str) -> None:
    """Skip the test if the package is not installed.

    Importing gevent or eventlet would change forks of this process in all later tests.
    """
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
