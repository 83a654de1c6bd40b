"""What operators do to a store that no queue has opened."""

from __future__ import annotations

from fairqueue import Settings
from fairqueue._stores.store import StoreBase
from fairqueue.operate import Operators


def operators_of(store: StoreBase) -> Operators:
    """Return all parts."""
    return Operators(lambda: store, Settings())
