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
    "asked": (),  # zset: workspace by when its provider was asked; minus when that was called old
    "kinds": (),  # hash: queue -> task or plain
    "expiry": (),  # zset: fence by lease end
    "leases": (),  # hash: fence -> lease
    "timer": (),  # zset: workspace or gate by the next thing that time brings it
    "branches": (),  # hash: queue/task, queue@group or queue/task@group -> how it stands
    "gates": (),  # hash: /task or @group -> why it is closed, its rate, when it opens
    "lost": (),  # hash: workspace -> early-acked jobs that died with their worker
    "observed": (),  # hash: workspace -> what limits would have held or refused
    "dead_workspaces": (),  # zset: who has dead letters, by the oldest
    "unique": (),  # hash: workspace:task:key -> queue, id and until when it counts
    "keyed": (),  # hash: queue id -> workspace:task:key
    "retention": (),  # string: seconds and number that dead letters are kept
    "leaving": (),  # string with an end: jobs are being handed over to another system
    "taken": (),  # hash: kind -> messages taken over from another system
    # one per name
    "ready": ("node",),  # zset: serial:workspace by tag; a node is a queue or a branch
    "first": ("node",),  # zset: those of them that run below their reserve
    "finish": ("node",),  # zset: workspace by F
    "resting": ("node",),  # zset: idle workspace by F, F still ahead of V
    "jobs": ("queue",),  # hash: id -> job, also while it runs
    "token": ("queue",),  # list: at most one wake-up
    "slots_of_queue": ("queue",),  # set: fences
    "untold": ("queue",),  # zset: workspace id of a dead letter by when its notice is due
    "slots_of_workspace": ("workspace",),  # set: fences
    "slots_of_gate": ("gate",),  # set: fences
    "slots_of_share": ("workspace", "task"),  # set: fences, of a task that has a limit
    "branches_of_gate": ("gate",),  # set: branches
    "scheduled": ("workspace",),  # zset: queue, priority, task, id by due time
    "expiring": ("workspace",),  # zset: queue, priority, task, id by when it expires
    "dead": ("workspace",),  # hash: id -> reason and job
    "graves": ("workspace",),  # zset: id of a dead letter by when it died
    "lane": ("workspace", "place", "priority"),  # list: task:id; a place is queue or queue/task
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
