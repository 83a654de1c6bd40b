"""The readers of lists and of ``why``, which few processes use: imported at their first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairqueue._lazy import Lazy

__all__ = ["explain", "fleet", "noted", "row_readers"]

if TYPE_CHECKING:
    from fairqueue._stores import explain, fleet, noted, row_readers
else:
    explain, fleet, noted, row_readers = (Lazy(f"fairqueue._stores.{name}") for name in __all__)
