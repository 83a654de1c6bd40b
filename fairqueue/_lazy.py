"""What a process imports when it first uses one of its names: most workers and publishers do not.

A module has dozens of classes of values, and each takes a third of a millisecond to make.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["Lazy", "explained", "reports", "rows"]


class Lazy:
    """A module that is imported at the first use of one of its names."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._module), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    from fairqueue import _reports as reports
    from fairqueue import explained, rows
else:
    explained, rows = Lazy("fairqueue.explained"), Lazy("fairqueue.rows")
    reports = Lazy("fairqueue._reports")
