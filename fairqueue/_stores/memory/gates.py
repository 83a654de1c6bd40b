"""Limits that many workspaces share inside a queue: of a task over all of them, of a group."""

from __future__ import annotations

from collections.abc import Iterator

from fairqueue import _fairness as fair
from fairqueue._keys import decode
from fairqueue._stores.memory.limits import Effective, limits_of_group, limits_of_task
from fairqueue._stores.memory.state import Branch, Flow, Gate, Held, State, Workspace, group_gate

ALMOST = 1e-9


def limits_of_gate(s: State, key: str) -> Effective | None:
    """What applies at a gate; None: nothing any more."""
    return limits_of_group(s, decode(key[1:])) if key[0] == "@" else limits_of_task(s, key[1:])


def _next_start(s: State, gate: Gate) -> float:
    limits = limits_of_gate(s, gate.key)
    if limits is None or not limits.rate or gate.key[0] == "@":
        return 0.0
    return fair.next_start(gate.tat, limits.rate, limits.burst)


def block_of(s: State, gate: Gate) -> str | None:
    """Why nothing may start behind this gate now."""
    limits = limits_of_gate(s, gate.key)
    if limits is not None and limits.paused:
        return "paused"
    if _next_start(s, gate) > s.now + ALMOST:
        return "rate"
    most = None if limits is None else limits.concurrency
    return "parked" if most is not None and len(gate.slots) >= most else None


def arm(s: State, gate: Gate) -> None:
    """A gate that its rate has closed opens at a known time."""
    at = _next_start(s, gate) if gate.block == "rate" else None
    if at == gate.timer:
        return
    gate.timer = at
    if at is None:
        s.timer.take(gate.key)
    else:
        s.timer.put(gate.key, at)
        s.due.update({s.branches[key].queue: at for key in gate.branches})


def above(s: State, flow: Flow) -> Iterator[Gate]:
    """The gates through which a flow's jobs must pass."""
    node = flow.up
    while isinstance(node, Branch):
        yield s.gate(node.gate)
        node = node.up


def gates_of(s: State, ws: Workspace, held: Held) -> list[Gate]:
    """The gates at which this lease holds a slot."""
    number = s.task_number(held.record.job.task)
    gates = [] if limits_of_task(s, number) is None else [s.gate(f"/{number}")]
    return gates if ws.parent is None else [*gates, s.gate(group_gate(ws.parent))]


def take(s: State, ws: Workspace, held: Held) -> list[Gate]:
    """Take a slot at every gate; a start counts for the rate of its task."""
    gates = gates_of(s, ws, held)
    for gate in gates:
        gate.slots.add(held.fence)
        limits = limits_of_gate(s, gate.key)
        if gate.key[0] == "/" and limits is not None:
            s.shares.setdefault((ws.name, gate.key[1:]), set()).add(held.fence)
            if limits.rate:
                gate.tat = fair.arrival_after(gate.tat, s.now, limits.rate)
    return gates


def give_back(s: State, ws: Workspace, held: Held) -> list[Gate]:
    """Free the slot at every gate."""
    gates = gates_of(s, ws, held)
    for gate in gates:
        gate.slots.discard(held.fence)
        _free_share(s, (ws.name, gate.key[1:]), held.fence)
    return gates


def _free_share(s: State, share: tuple[str, str], fence: int) -> None:
    slots = s.shares.get(share, set())
    slots.discard(fence)
    if not slots:
        s.shares.pop(share, None)


def running_of(s: State, ws: Workspace, task: str) -> int:
    """Leases of one task in one workspace, of a task that has a limit."""
    return len(s.shares.get((ws.name, task), ()))


def lane_block(s: State, ws: Workspace, flow: Flow) -> str | None:
    """A task's limit per workspace parks that lane alone."""
    limits = limits_of_task(s, flow.task) if flow.task else None
    if limits is None or limits.workspace_concurrency is None:
        return None
    return "lane" if running_of(s, ws, flow.task) >= limits.workspace_concurrency else None


def enroll(s: State, task: str) -> None:
    """Leases hold a slot of their task exactly while it has a limit."""
    number = s.task_number(task)
    gate, limited = s.gate(f"/{number}"), limits_of_task(s, number) is not None
    gate.slots.clear()
    for held in s.leases.values():
        share = held.record.job.workspace, number
        if held.record.job.task == task and limited:
            gate.slots.add(held.fence)
            s.shares.setdefault(share, set()).add(held.fence)
        elif held.record.job.task == task:
            s.shares.pop(share, None)
