"""The only place that spells Redis keys; operations spell ``K.kind(part)`` from it.

A key is ``{namespace:shard}:kind:part:part``. The braces keep a shard's keys on one Cluster
slot. Names are percent-encoded in a key, so that no two names can lead to the same key.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

_is_plain = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
"""Whether a name stays as it is; this is a tenth of the time of ``quote``."""

NO_TASK = "%"  # no name is encoded so

LAYOUT: dict[str, tuple[str, ...]] = {
    # one per shard
    "meta": (),  # string: the shard's own numbers
    "shards": (),  # string: how many shards the namespace has, if it has several
    "moved": (),  # hash: workspace -> the shard that it has moved to; see moves.lua
    "workspaces": (),  # hash: workspace -> how it stands in each node, and its estimates
    "nodes": (),  # hash: queue -> virtual time, largest step, how fast it drains, last dispatch
    "across": (),  # hash: queue -> how it stands beside itself on other shards
    "inner_nodes": (),  # hash: queue/task, queue@group or queue/task@group -> how it stands
    "shared_limits": (),  # hash: /task or @group -> why it is closed, its rate, when it opens
    "tasks": (),  # hash: task -> average worker-seconds, and when it was named; see the module
    "limits": (),  # hash: source:scope:name -> limits
    "stored_by": (),  # hash: field of limits -> when it was stored, and by which process
    "indexed_tasks": (),  # hash: task that has, or had, a limit -> all or new
    "configured": (),  # hash: field of limits -> as configured; '': a digest of all
    "asked": (),  # zset: workspace by when its limit provider was called
    "kinds": (),  # hash: queue -> task or plain
    "expiry": (),  # zset: fence by lease end
    "leases": (),  # hash: fence -> lease
    "task_rates": (),  # zset: workspace:task by the theoretical arrival time of its rate there
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
    "totals": (),  # hash: what happens to jobs while no process sees it -> how often it did
    "workers": (),  # zset: owner, its node's name and software, by its last sign of life
    "worker_queues": (),  # hash: owner -> length of its leases, slots, queues it takes jobs from
    "history": (),  # string with an end: samples of what ran and waited, the newest first
    "rebuild": (),  # string: how far the search for what is not used any more has come
    "requests": (),  # zset: ticket in flight by lease end
    "waiting_requests": (),  # zset: ticket that waits by lease end
    "request_turns": (),  # zset: turn:workspace that waits, by requests in flight per weight
    "request_queue": (),  # hash: workspace with waiting requests -> its turn; # -> the last one
    "permit_turns": (),  # hash: scope:name of a limit wider than a shard -> its rate, what waits
    "confirmed": (),  # string: touched before each wait for replicas, and never read
    # one per name
    "ready": ("node",),  # zset: arrival:workspace by tag; a node is a queue or an inner node
    "reserved": ("node",),  # zset: those of them that run below their reserve
    "finish": ("node",),  # zset: workspace by finish tag
    "indebted": ("node",),  # zset: idle workspace by finish tag, if that is ahead of virtual time
    "jobs": ("queue",),  # hash: id -> job, also while it runs
    "token": ("queue",),  # list: at most one wake-up
    "permit_token": ("queue",),  # list: the same, for those that were refused a permit
    "permits": ("scope", "name"),  # zset: permit of a limit wider than a shard by its end
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
    "requests_of_workspace": ("workspace",),  # zset: ticket by turn, by 0 once it is in flight
    "limits_with": ("what",),  # set: fields of limits with a capacity, a reserve, …
    "lane": ("workspace", "lane_key", "priority"),  # list: task:id; key: queue or queue/task
    "returned": ("workspace", "lane_key", "priority"),  # zset: task:id by its first fence
    "holes": ("workspace", "lane_key", "priority"),  # hash: element without a job -> how many
    "kept_places": ("scope",),  # string with an end: workspaces that it has refused, see the module
    "ended": ("window",),  # set: ids, for repeated publishes
    "groups": ("window",),  # set: groups that were admitted
    "claimer": ("owner",),  # string: last number and reply
}


_TYPED = {
    "string": "meta shards retention imports_suspended rebuild claimer confirmed history "
    "kept_places",
    "list": "token permit_token lane",
    "set": "slots_of_workspace slots_of_workspace_task slots_of_shared_limit nodes_of_shared_limit "
    "limits_with ended groups",
    "zset": "asked expiry timer task_rates dead_workspaces ready reserved finish indebted "
    "unreported scheduled expiring dead_letters_by_age requests request_turns "
    "waiting_requests requests_of_workspace returned workers permits",
}
TYPES = dict.fromkeys(LAYOUT, "hash") | {
    kind: of for of, kinds in _TYPED.items() for kind in kinds.split()
}
"""The type of each kind of key, as Redis names it."""


def encode(name: str) -> str:
    """Percent-encode a name for use in a key or a packed record."""
    return name if _is_plain(name) else quote(name, safe="")


def encode_task(name: str) -> str:
    """Encode the name of a task; a job may have none."""
    return encode(name) or NO_TASK


def encode_in(scope: str, name: str) -> str:
    """Encode a name of this scope."""
    return encode_task(name) if scope == "task" else encode(name)


def decode(part: bytes | str) -> str:
    """Return the name that was encoded."""
    text = part.decode() if isinstance(part, bytes) else part
    if text == NO_TASK:
        return ""
    return unquote(text) if "%" in text else text


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

    def exported(self) -> str:
        """Return what begins the keys of lists to which this shard's jobs are exported.

        They are another system's, so they are not in the layout; a script that writes to them needs
        them in its own slot.
        """
        return f"{self.prefix[:-1]}exported:"
