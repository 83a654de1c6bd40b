"""When the next claim may be made: under a steady flow, not one call to the store for each job."""

from __future__ import annotations

import time

from fairqueue import Settings

CLAIM_INTERVAL_SECONDS = 0.002
"""Between two claims, unless the first brought all that it asked for: then there may be more."""


class ClaimInterval:
    """Spaces a worker's claims; the first one after a quiet time is never early."""

    def __init__(self, settings: Settings) -> None:
        self._slots_are_limited = _has_concurrency_limits(settings)
        self._next_at = 0.0

    def claimed(self, *, more: bool) -> None:
        """A claim was made; ``more``: it brought all that it asked for."""
        self._next_at = 0.0 if more else time.monotonic() + CLAIM_INTERVAL_SECONDS

    def early_seconds(self, *, finishing: bool) -> float:
        """How much too early a claim is. A limited slot is given back at once."""
        if finishing and self._slots_are_limited:
            return 0.0
        return self._next_at - time.monotonic()


def _has_concurrency_limits(settings: Settings) -> bool:
    """Whether another job may wait for the slot of one that ends, by these settings."""
    stored = settings.stored_limits()
    named = [*stored.workspaces.values(), *stored.queues.values(), *stored.tasks.values()]
    limits = [limit for one in named for limit in (one.concurrency, one.workspace_concurrency)]
    default = [stored.default.concurrency, stored.total.concurrency, settings.limit_provider]
    return any(limit is not None for limit in [*default, *limits])
