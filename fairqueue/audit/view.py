"""One look at a keyspace, and what the limits stored in it require."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet

from fairqueue import _fairness as fair
from fairqueue.audit.keyspace import FlowRow, InnerNodeRow, Keyspace, WorkspaceRow
from fairqueue.audit.limits import Levels

ALMOST = 1e-6
FORMAT = "format=1"
NO_META = f"0 0 0 - - 0 - 0 0 {FORMAT}"


def unequal(
    one: str, there: AbstractSet[Hashable], other: str, wanted: AbstractSet[Hashable]
) -> Iterator[str]:
    """Name each member that only one of the sets has.

    Each by itself, so that a second look at a busy queue finds it again in the same words.
    """
    yield from (f"{one} have {each}, {other} do not" for each in there - wanted)
    yield from (f"{other} have {each}, {one} do not" for each in wanted - there)


class Audit:
    """One look at a keyspace."""

    def __init__(self, space: Keyspace, now: float) -> None:
        self.space = space
        self.levels = Levels(space.one("limits", {}))
        meta = space.one("meta", NO_META).split()
        self.last_fence, self.last_arrival = int(meta[0]), int(meta[1])
        self.draining = meta[6] != "-"
        """A changed default has not reached every workspace yet."""
        self.format = meta[-1]
        """The last word of the shard's record names it."""
        self.beat, self.offset = float(meta[2]), float(meta[8])
        self.now = max(now + self.offset, self.beat)
        """The time by the shard's clock, which does not go back."""

    def members(self, kind: str) -> set[tuple[str, str]]:
        """Every member of the sets of a kind with one name, as (name, member)."""
        return {(names[0], member) for names, found in self.space.all(kind) for member in found}

    def scored(self, kind: str) -> set[tuple[str, str, float]]:
        """Every member of the sorted sets of a kind, as (name, member, score)."""
        found = self.space.all(kind)
        return {(names[0], *pair) for names, scores in found for pair in scores.items()}

    def usage(self, workspace: str) -> int:
        """Leases of a workspace."""
        return len(self.space.of("slots_of_workspace", workspace))

    def blocked(self, ws: WorkspaceRow) -> str | None:
        """Tell which of its own limits blocks a workspace."""
        limits = self.levels.of_workspace(ws.name)
        rate, most = limits.get("rate"), limits.get("concurrency")
        if "paused" in limits:
            return "paused"
        if self.levels.observed:
            return None
        if rate and fair.next_start(ws.tat, rate, limits.get("burst", 1.0)) > self.now + ALMOST:
            return "rate"
        return "at_limit" if most is not None and self.usage(ws.name) >= most else None

    def is_below(self, name: str) -> bool:
        """Whether a workspace, or a member of an inner node, runs below its reserve."""
        if name in self.space.inner_nodes:
            return bool(self.space.of("reserved", name))
        reserve = self.levels.of_workspace(name).get("reserve", 0)
        return not self.levels.observed and self.usage(name) < reserve

    def running(self, workspace: str, task: str) -> int:
        """Count a workspace's leases of a task that has a limit."""
        return len(self.space.of("slots_of_workspace_task", workspace, task))

    def task_block(self, ws: WorkspaceRow, flow: FlowRow) -> str | None:
        """Tell whether a task's limit per workspace blocks one lane."""
        has_one = flow.task and not self.levels.observed
        limits = self.levels.of_shared(f"/{flow.task}") if has_one else None
        most = (limits or {}).get("workspace_concurrency")
        is_full = most is not None and self.running(ws.name, flow.task) >= most
        return "at_task_limit" if is_full else None

    def closed(self, key: str) -> str | None:
        """Tell why a shared limit is closed; where its rate closes it, its timer may be due."""
        limits, row = self.levels.of_shared(key) or {}, self.space.shared_limits.get(key)
        rate, most, tat = limits.get("rate"), limits.get("concurrency"), row.tat if row else 0.0
        if "paused" in limits:
            return "paused"
        if self.levels.observed:
            return None
        if rate and fair.next_start(tat, rate, limits.get("burst", 1.0)) > self.now + ALMOST:
            return "rate"
        used = len(self.space.of("slots_of_shared_limit", key))
        return "at_limit" if most is not None and used >= most else None

    def is_due(self, key: str) -> bool:
        """Its timer has not been fired yet."""
        row = self.space.shared_limits.get(key)
        return row is not None and row.timer is not None and row.timer <= self.now

    def is_open(self, queue: str) -> bool:
        """Neither the queue nor the total is full or paused."""
        of_queue, of_total = self.levels.of_queue(queue), self.levels.of_total()
        if "paused" in of_queue or "paused" in of_total:
            return False
        if self.levels.observed:
            return True
        own, total = of_queue.get("concurrency"), of_total.get("concurrency")
        used = len(self.space.of("slots_of_queue", queue))
        return (own is None or used < own) and (total is None or len(self.space.leases) < total)

    def stands(self) -> Iterator[tuple[str, FlowRow | InnerNodeRow, str]]:
        """Every member of every node: its name, its row, the node."""
        yield from ((ws.name, flow, flow.node) for ws, flow in self.flows())
        yield from ((b.id, b, b.up) for b in self.space.inner_nodes.values())

    def flows(self) -> Iterator[tuple[WorkspaceRow, FlowRow]]:
        """Every flow of every workspace."""
        for ws in self.space.workspaces.values():
            for flow in ws.flows:
                yield ws, flow
