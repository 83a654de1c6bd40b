"""The only place that spells Redis keys; the linker expands ``K.kind(part)`` in scripts from it.

A key is ``{namespace:shard}:kind:part:part``. The braces keep a shard's keys on one Cluster
slot. Names are percent-encoded in a key, so that no two names can lead to the same key.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

LAYOUT: dict[str, tuple[str, ...]] = {
    # one per shard
    "meta": (),  # string: the shard's own numbers
    "workspaces": (),  # hash: workspace -> how it stands in each node, and its estimates
    "nodes": (),  # hash: queue -> virtual time, largest step, how fast it drains, last dispatch
    "inner_nodes": (),  # hash: queue/task, queue@group or queue/task@group -> how it stands
    "shared_limits": (),  # hash: /task or @group -> why it is closed, its rate, when it opens
    "tasks": (),  # hash: task -> number, #number -> task, # -> the last number
    "duration_estimates": (),  # hash: task number -> average worker-seconds, all workspaces
    "limits": (),  # hash: source:scope:name -> limits
    "indexed_tasks": (),  # hash: number of a task that has, or had, a limit -> all or new
    "configured": (),  # hash: field of limits -> as configured; '': a digest of all
    "asked": (),  # zset: workspace by when its limit provider was asked; negative: expired then
    "kinds": (),  # hash: queue -> task or plain
    "expiry": (),  # zset: fence by lease end
    "leases": (),  # hash: fence -> lease
    "timer": (),  # zset: workspace or shared limit by when time changes it next
    "lost": (),  # hash: workspace -> early-acked jobs that died with their worker
    "without_workspace": (),  # hash: task -> jobs that named no workspace, and when the last was
    "observed": (),  # hash: workspace -> what limits would have blocked or rejected
    "dead_workspaces": (),  # zset: workspace with dead letters by the oldest
    "unique": (),  # hash: workspace:task:key -> queue, id and until when it counts
    "keyed": (),  # hash: queue id -> workspace:task:key
    "retention": (),  # string: seconds and number that dead letters are kept
    "imports_suspended": (),  # string with an end: jobs are being exported to another system
    "set_aside": (),  # hash: kind name -> when and what could not be read; #kind -> how many
    "imported": (),  # hash: kind -> messages imported from another system
    "cleanup": (),  # string: how far the search for what is not used any more has come
    # one per name
    "ready": ("node",),  # zset: arrival:workspace by tag; a node is a queue or an inner node
    "reserved": ("node",),  # zset: those of them that run below their reserve
    "finish": ("node",),  # zset: workspace by finish tag
    "indebted": ("node",),  # zset: idle workspace by finish tag, if that is ahead of virtual time
    "jobs": ("queue",),  # hash: id -> job, also while it runs
    "token": ("queue",),  # list: at most one wake-up
    "slots_of_queue": ("queue",),  # hash: id of a running job -> fence
    "unreported": ("queue",),  # zset: workspace id of a dead letter by when its notice is due
    "slots_of_workspace": ("workspace",),  # set: fences
    "slots_of_workspace_task": ("workspace", "task"),  # set: fences, of a task that has a limit
    "slots_of_shared_limit": ("shared_limit",),  # set: fences
    "nodes_of_shared_limit": ("shared_limit",),  # set: inner nodes
    "scheduled": ("workspace",),  # zset: queue, priority, task, id by due time
    "expiring": ("workspace",),  # zset: queue, priority, task, id by when it expires
    "dead_letters": ("workspace",),  # hash: id -> when and why it died, and its record
    "dead_letters_by_age": ("workspace",),  # zset: id by when it died
    "limits_with": ("what",),  # set: fields of limits with a capacity, a reserve, …
    "lane": ("workspace", "lane_key", "priority"),  # list: task:id; key: queue or queue/task
    "returned": ("workspace", "lane_key", "priority"),  # zset: task:id by its first fence
    "holes": ("workspace", "lane_key", "priority"),  # hash: element without a job -> how many
    "ended": ("window",),  # set: ids, for repeated publishes
    "groups": ("window",),  # set: groups that were admitted
    "claimer": ("owner",),  # string: last number and reply
}


def encode(name: str) -> str:
    """Percent-encode a name for use in a key or a packed record."""
    return quote(name, safe="")


def decode(part: bytes | str) -> str:
    """Return the name that was encoded."""
    return unquote(part.decode() if isinstance(part, bytes) else part)


class Keys:
    """Builds the keys of one namespace and shard."""

    def __init__(self, namespace: str, shard: int = 0) -> None:
        self.prefix = f"{{{namespace}:{shard}}}:"

    def key(self, kind: str, *names: str) -> str:
        """Return the key of a kind; names are given unencoded."""
        if len(names) != len(LAYOUT[kind]):
            raise TypeError(f"a {kind} key takes {LAYOUT[kind]}, not {names}")
        return ":".join((self.prefix + kind, *map(encode, names)))

    def declared(self) -> list[str]:
        """Return the keys that every script is given: the shard's record, and the bare prefix.

        No key is named so. For a slot of a Cluster that moves, a key that is not there beside one
        that is makes Redis answer TRYAGAIN before the script has changed anything.
        """
        return [self.key("meta"), self.prefix]
