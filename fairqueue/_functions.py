"""Finds a function that a setting names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from fairqueue.errors import ConfigurationError


def load_function(
    source: str, *, setting: str, error: type[ConfigurationError] = ConfigurationError
) -> Callable[..., Any]:
    """Import ``package.module:function``; raises ``error``, which names the setting."""
    try:
        found = _find(source)
    except (ImportError, AttributeError) as reason:
        raise error(
            f"{setting} names {source!r}, which cannot be loaded: {reason}; "
            "write it as 'package.module:function'"
        ) from reason
    if not callable(found):
        raise error(f"{setting} names {source!r}, which is not callable")
    return found  # type: ignore[no-any-return]


def _find(source: str) -> Any:
    module, _, name = source.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
