"""Asks for an optional package without importing it into pytest's own process."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(package: str) -> None:
    """Skip where it is not installed.

    Importing gevent or eventlet would change how this process forks, for every test after it.
    """
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)
