"""Running jobs that are still blocked on the result of a job for which no slot is free."""

from __future__ import annotations

from contextlib import suppress

from fairqueue._stores.store import StoreBase
from fairqueue.errors import StoreUnavailable
from fairqueue.explained import JobState
from fairqueue.rows import BlockedWait


def blocked_waits(store: StoreBase) -> list[BlockedWait]:
    """Return what was noted within a day, of jobs that still run and whose child still waits."""
    noted: list[BlockedWait] = []
    for shard in store.shards:
        with suppress(StoreUnavailable):  # what it has is not known
            told = dict.fromkeys(wait for page in shard.waits() for wait in page)
            noted += (wait for wait in told if shard.is_leased(wait.fence))
    return [wait for wait in noted if _is_waited_for(store, wait)]


def _is_waited_for(store: StoreBase, wait: BlockedWait) -> bool:
    child = store.why(workspace=wait.workspace, job_id=wait.child_id, queue=wait.child_queue)
    return child.state is JobState.WAITING
