"""A task gets or loses a limit of its own, a workspace joins or leaves a group: slots follow."""

from __future__ import annotations

from fairqueue._stores.memory.branches import count, look, settle_branches, settle_gate
from fairqueue._stores.memory.gates import enroll
from fairqueue._stores.memory.limits import NONE
from fairqueue._stores.memory.order import finish_of, leave, set_finish
from fairqueue._stores.memory.state import Flow, Node, State, Workspace, group_gate
from fairqueue._types import StoredLimits


def change_task(s: State, task: str) -> None:
    """Its leases are counted from now on, or no more; its branches open or close."""
    enroll(s, task)
    gate = s.gate(f"/{s.task_number(task)}")
    look(s, gate)
    settle_gate(s, gate)


def number_tasks(s: State, limits: StoredLimits) -> list[str]:
    """Number the tasks that have a limit there."""
    return [s.task_number(name) for name, own in limits.tasks.items() if own != NONE]


def change_tasks(s: State, before: StoredLimits | None, after: StoredLimits) -> None:
    """Another configuration names other tasks."""
    numbers = {*number_tasks(s, after), *(number_tasks(s, before) if before else ())}
    for number in sorted(numbers, key=int):
        change_task(s, s.task_names[int(number) - 1])


def change_group(s: State, name: str) -> None:
    """Its weight or its limit is another: its branches stand elsewhere, close or open."""
    gate = s.gates.get(group_gate(name))
    if gate is not None:
        look(s, gate)
        settle_gate(s, gate)


def join(s: State, ws: Workspace, parent: str | None) -> None:
    """Stand in the nodes of another group: with what was used too much, without any credit."""
    old, ws.parent = ws.parent, parent
    for flow in ws.flows:
        _move(s, ws, flow)
    for name, slots in ((old, set()), (parent, ws.slots)):
        if name is not None:
            gate = s.gate(group_gate(name))
            gate.slots = (gate.slots - ws.slots) | slots
            look(s, gate)


def _move(s: State, ws: Workspace, flow: Flow) -> None:
    finish, node = finish_of(ws, flow), flow.up
    leave(ws, flow)
    _take_out(s, ws, flow)
    flow.up = s.leaf(flow.queue, flow.task, ws.parent)
    s.add_member(flow.up, 1)
    if finish is not None:
        set_finish(ws, flow, flow.up.v + max(0.0, finish - node.v))
    flow.state = "idle"
    count(ws, flow)


def _take_out(s: State, ws: Workspace, flow: Flow) -> None:
    node: Node = flow.up
    count(ws, flow, gone=True)
    node.finish.take(ws.key)
    node.resting.take(ws.key)
    s.add_member(node, -1)
    settle_branches(s, node)
