"""The only place where a Redis key is spelled; ``K.kind(part)`` in a script is written out from it.

A key is ``{namespace:shard}:kind:part:part``. The braces keep a shard's keys on one Cluster
slot. Parts are percent-encoded names, so that no name can break a key or meet another.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

LAYOUT: dict[str, tuple[str, ...]] = {
    # one per shard
    "meta": (),  # hash: counters and marks
    "workspaces": (),  # hash: workspace -> how it stands in each node, and its averages
    "nodes": (),  # hash: queue -> V, largest step, pace
    "tasks": (),  # hash: task -> number, #number -> task
    "means": (),  # hash: task number -> average worker-seconds over all workspaces
    "limits": (),  # hash: source:scope:name -> limits
    "kinds": (),  # hash: queue -> task or plain
    "expiry": (),  # zset: fence by lease end
    "leases": (),  # hash: fence -> lease
    "timer": (),  # zset: workspace by the next thing that time brings it
    "lost": (),  # hash: workspace -> early-acked jobs that died with their worker
    "dead_workspaces": (),  # set: who has dead letters
    # one per name
    "ready": ("queue",),  # zset: serial:workspace by tag
    "finish": ("queue",),  # zset: workspace by F
    "resting": ("queue",),  # zset: idle workspace by F, F still ahead of V
    "jobs": ("queue",),  # hash: id -> job, also while it runs
    "token": ("queue",),  # list: at most one wake-up
    "slots_of_queue": ("queue",),  # set: fences
    "slots_of_workspace": ("workspace",),  # set: fences
    "scheduled": ("workspace",),  # zset: queue, priority, task, id by due time
    "dead": ("workspace",),  # hash: id -> reason and job
    "lane": ("workspace", "queue", "priority"),  # list: task:id
    "ended": ("window",),  # set: ids, for repeated publishes
    "groups": ("window",),  # set: groups let in
    "claimer": ("owner",),  # string: last number and reply
}


def encode(name: str) -> str:
    """Make a name safe as a part of a key and of a packed record."""
    return quote(name, safe="")


def decode(part: bytes | str) -> str:
    """Give back the name that was encoded."""
    return unquote(part.decode() if isinstance(part, bytes) else part)


class Keys:
    """Keys of one namespace and shard."""

    def __init__(self, namespace: str, shard: int = 0) -> None:
        self.prefix = f"{{{namespace}:{shard}}}:"

    def key(self, kind: str, *names: str) -> str:
        """Spell one key; names are given as users know them."""
        if len(names) != len(LAYOUT[kind]):
            raise TypeError(f"a {kind} key takes {LAYOUT[kind]}, not {names}")
        return ":".join((self.prefix + kind, *map(encode, names)))
