"""Running jobs that wait for the result of a job for which no slot is free: noted, and listed."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import astuple

from fairqueue._lazy import rows
from fairqueue._stores.store import Store, StoreBase
from fairqueue._types import JobState
from fairqueue.errors import StoreUnavailable


def note_wait(shard: Store, wait: rows.BlockedWait) -> None:
    """Note a job that waits for another, on the shard of its lease."""
    key = shard.engine.keys.key("progress")
    shard.engine.command("HSET", key, f"!{wait.fence}", json.dumps(astuple(wait)))


def blocked_waits(store: StoreBase) -> list[rows.BlockedWait]:
    """Return what was noted of jobs that still run and whose child still waits."""
    noted: list[rows.BlockedWait] = []
    for shard in store.shards:
        with suppress(StoreUnavailable):  # what it has is not known
            found = shard.engine.command("HGETALL", shard.engine.keys.key("progress"))
            texts = found.values() if isinstance(found, dict) else found[1::2]
            told = (rows.BlockedWait(*json.loads(text)) for text in texts if text[:1] == b"[")
            noted += (wait for wait in told if shard.is_leased(wait.fence))
    return [wait for wait in noted if _is_waited_for(store, wait)]


def _is_waited_for(store: StoreBase, wait: rows.BlockedWait) -> bool:
    child = store.why(workspace=wait.workspace, job_id=wait.child_id, queue=wait.child_queue)
    return child.state is JobState.WAITING
