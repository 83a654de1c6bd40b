"""Checks the store before its first use: refuses bad servers, but only warns operators."""

from __future__ import annotations

from collections.abc import Callable

from fairqueue._stores.engine import UnsafeServer
from fairqueue._stores.sharded import ShardedStore
from fairqueue._stores.store import StoreBase


class Connection:
    """Whether a queue's store was checked.

    ``bring`` stores the limits of the process; None: a tool that neither publishes nor claims.
    """

    def __init__(self, store: ShardedStore, bring: Callable[[], bool] | None) -> None:
        self._store, self._bring = store, bring
        self._is_ready = self._is_reached = False

    def like(self, other: Connection) -> None:
        """Skip the steps that another queue on the same keys has taken."""
        self._is_ready, self._is_reached = other._is_ready, other._is_reached

    def connect(self) -> bool:
        """Check the server and store the limits; see :meth:`fairqueue.FairQueue.connect`."""
        self._store.check(strict=self._bring is not None and not self._is_ready)
        same = self._bring is None or self._bring()
        self._is_ready = True
        return same

    def connected(self) -> StoreBase:
        """Return the store for publishes and claims."""
        if not self._is_ready:
            self.connect()
        return self._store

    def reached(self) -> StoreBase:
        """Return the store for operators, also on a server that may lose jobs."""
        if not (self._is_ready or self._is_reached):
            try:
                self.connect()
            except UnsafeServer:
                self._store.check(strict=False)
                self._is_reached = True
        return self._store
