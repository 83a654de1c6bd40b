"""When the next claim may be made: under a steady flow, not one trip for each job."""

from __future__ import annotations

import time

from fairqueue import Settings

PACE_SECONDS = 0.002
"""Between two claims, unless the first brought all that it asked for: then more may be there."""


class Pace:
    """Spaces a worker's claims; one after a quiet time is never early."""

    def __init__(self, settings: Settings) -> None:
        self._slots_are_scarce = _limits_what_runs(settings)
        self._earliest = 0.0

    def claimed(self, *, more: bool) -> None:
        """A claim was made; ``more``: it brought all that it asked for."""
        self._earliest = 0.0 if more else time.monotonic() + PACE_SECONDS

    def early_seconds(self, *, ending: bool) -> float:
        """How much too early a claim is. The end of a job waits for nothing that others need."""
        if ending and self._slots_are_scarce:
            return 0.0
        return self._earliest - time.monotonic()


def _limits_what_runs(settings: Settings) -> bool:
    """Whether somebody may wait for a slot, as far as these settings tell."""
    stored = settings.stored_limits()
    named = [*stored.workspaces.values(), *stored.queues.values(), *stored.tasks.values()]
    limits = [limit for one in named for limit in (one.concurrency, one.workspace_concurrency)]
    own = [stored.default.concurrency, stored.total.concurrency, settings.limit_provider]
    return any(limit is not None for limit in [*own, *limits])
