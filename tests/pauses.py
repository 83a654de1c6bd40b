"""What is paused or draining, as tests compare it."""

from __future__ import annotations

from fairqueue import FairQueue, Pause


def paused(queue: FairQueue) -> dict[tuple[str, str], Pause]:
    """Return it by scope and name."""
    return {(row.scope, row.name): row.state for row in queue.pauses.list()}
