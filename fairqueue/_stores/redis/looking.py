"""One look at a keyspace, and what the limits that are stored there ask for."""

from __future__ import annotations

from collections.abc import Iterator

from fairqueue import _fairness as fair
from fairqueue._stores.redis.keyspace import BranchRow, FlowRow, Keyspace, WorkspaceRow
from fairqueue._stores.redis.stored_limits import Levels

ALMOST = 1e-6


class Audit:
    """One look at a keyspace."""

    def __init__(self, space: Keyspace, now: float) -> None:
        self.space, self.now = space, now
        self.levels = Levels(space.one("limits", {}))
        meta = space.one("meta", "0 0 0 0 0 - 0 - 0").split()
        self.last_fence, self.draining = int(meta[0]), meta[7] != "-"
        """A changed default has not reached everybody yet."""

    def usage(self, workspace: str) -> int:
        """Leases of a workspace."""
        return len(self.space.of("slots_of_workspace", workspace))

    def blocked(self, ws: WorkspaceRow) -> str | None:
        """What holds a workspace back, by its own limits."""
        limits = self.levels.of_workspace(ws.name)
        rate, most = limits.get("rate"), limits.get("concurrency")
        if "paused" in limits:
            return "paused"
        if self.levels.observed:
            return None
        if rate and fair.next_start(ws.tat, rate, limits.get("burst", 1.0)) > self.now + ALMOST:
            return "rate"
        return "parked" if most is not None and self.usage(ws.name) >= most else None

    def is_below(self, name: str) -> bool:
        """A workspace runs below its reserve, or there is such a one in a branch."""
        if name in self.space.branches:
            return bool(self.space.of("first", name))
        reserve = self.levels.of_workspace(name).get("reserve", 0)
        return not self.levels.observed and self.usage(name) < reserve

    def running(self, workspace: str, task: str) -> int:
        """Leases of a workspace of a task that has a limit."""
        return len(self.space.of("slots_of_share", workspace, task))

    def lane_block(self, ws: WorkspaceRow, flow: FlowRow) -> str | None:
        """What holds one lane back alone: its task's limit per workspace."""
        has_one = flow.task and not self.levels.observed
        limits = self.levels.of_gate(f"/{flow.task}") if has_one else None
        most = (limits or {}).get("workspace_concurrency")
        return "lane" if most is not None and self.running(ws.name, flow.task) >= most else None

    def closed(self, gate: str) -> str | None:
        """Why nothing may start behind a gate; where a rate closes it, its timer may be due."""
        limits, row = self.levels.of_gate(gate) or {}, self.space.gates.get(gate)
        rate, most, tat = limits.get("rate"), limits.get("concurrency"), row.tat if row else 0.0
        if "paused" in limits:
            return "paused"
        if self.levels.observed:
            return None
        if rate and fair.next_start(tat, rate, limits.get("burst", 1.0)) > self.now + ALMOST:
            return "rate"
        used = len(self.space.of("slots_of_gate", gate))
        return "parked" if most is not None and used >= most else None

    def is_due(self, gate: str) -> bool:
        """Its timer has not been fired yet."""
        row = self.space.gates.get(gate)
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

    def stands(self) -> Iterator[tuple[str, FlowRow | BranchRow, str]]:
        """Every member of every node: its name, how it stands, the node."""
        yield from ((ws.name, flow, flow.node) for ws, flow in self.flows())
        yield from ((b.id, b, b.up) for b in self.space.branches.values())

    def flows(self) -> Iterator[tuple[WorkspaceRow, FlowRow]]:
        """Every workspace in every node."""
        for ws in self.space.workspaces.values():
            for flow in ws.flows:
                yield ws, flow
