"""Stores the limits of a process's settings, and logs conflicts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress

from fairqueue._settings import Settings
from fairqueue._stores.limits_text import configured
from fairqueue._stores.sharded.asking import each
from fairqueue._stores.store import Store, StoreBase
from fairqueue._utils import Throttle
from fairqueue.errors import StoreUnavailable

logger = logging.getLogger("fairqueue")

CHECKS_PER_LEASE = 3
"""How often a worker that claims looks whether the store still has limits."""


class OwnLimits:
    """Stores the limits of one process; an ``authoritative`` one replaces others."""

    def __init__(self, settings: Settings, store: StoreBase, *, authoritative: bool) -> None:
        self._settings, self._store, self._authoritative = settings, store, authoritative
        self._told = False
        self._check: Throttle | None = None
        if authoritative and any(configured(settings.stored_limits())):
            self._check = Throttle(settings.lease_seconds / CHECKS_PER_LEASE)

    def bring(self) -> bool:
        """Store them; return whether the stored limits are now these, and log if they are not."""
        limits = self._settings.stored_limits()
        same = self._store.configure(
            limits,
            authoritative=self._authoritative,
            erases=False,
            on_replaced=self._tell_of_replaced,
            defers=True,
        )
        names_any = any(configured(limits))
        if self._authoritative and not (same or names_any):
            logger.info(
                "this worker names no limit, so those stored in Redis (namespace %r) stay in "
                "force: 'fairqueue limits get' shows them, and 'fairqueue limits unset "
                "--configured' removes them",
                self._settings.namespace,
            )
        if not (same or self._authoritative or self._told) and names_any:
            self._told = True
            logger.warning(
                "this process's limits are overridden by those stored in Redis (namespace %r): "
                "configure the same limits here ('fairqueue limits get --default' shows the stored "
                "default); a worker stores its own when it starts",
                self._settings.namespace,
            )
        return same

    def _tell_of_replaced(self, changes: Sequence[str], n: int) -> None:
        """Log which limits of another configuration this process has replaced."""
        more = f"; and {n - len(changes)} more" if n > len(changes) else ""
        logger.warning(
            "this worker has replaced limits stored in Redis (namespace %r) by its own: %s%s",
            self._settings.namespace,
            "; ".join(changes),
            more,
        )

    def restore_if_lost(self, answering: Callable[[], Sequence[Store]]) -> None:
        """Now and then, store a worker's limits again if the store has lost them.

        Only on shards that answer: one of several that does not must not stop the others.
        """
        if self._check is not None and self._check.passes():
            with suppress(StoreUnavailable) if len(self._store.shards) > 1 else nullcontext():
                each(answering(), self._restore_on)

    def _restore_on(self, shard: Store) -> None:
        if shard.has_limits():
            return
        shard.configure(self._settings.stored_limits(), authoritative=False)
        logger.warning(
            "the limits in Redis (namespace %r) are gone, as after FLUSHDB: this worker has stored "
            "its own again; live limits and pauses must be set again",
            self._settings.namespace,
        )
