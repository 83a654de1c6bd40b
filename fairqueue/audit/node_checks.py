"""Checks of inner nodes and of the limits that many workspaces share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from fairqueue import _fairness as fair
from fairqueue._keys import decode
from fairqueue.audit.view import Audit, unequal

ALMOST = 1e-6
HELD = {"at_limit", "at_task_limit", "rate"}


def _inner_nodes_stand_where_they_should(a: Audit) -> Iterator[str]:
    """It is ready exactly while a member is runnable and its shared limit is open."""
    for b in a.space.inner_nodes.values():
        runnable, closed = bool(a.space.of("ready", b.id)), a.closed(b.limit_key)
        resting = {"at_task_limit"} if b.held else {"idle", "busy", "idle_with_debt"}
        wanted = {closed or "ready"} if runnable else resting
        if b.state not in wanted and not a.draining and not a.is_due(b.limit_key):
            yield f"inner node {b.id} is {b.state}, not {wanted}"
        if (b.arrival is not None) != (b.state == "ready"):
            yield f"inner node {b.id} is {b.state} with arrival {b.arrival}"


def _closed_shared_limits_are_full_or_wait(a: Audit) -> Iterator[str]:
    for name, shared in a.space.shared_limits.items():
        closed = a.closed(name) if a.space.of("nodes_of_shared_limit", name) else None
        if shared.block != closed and not a.draining and not a.is_due(name):
            yield f"shared limit {name} is {shared.block}, not {closed}"
        if shared.block == "rate" and shared.timer is None:
            yield f"shared limit {name} waits for its rate and no timer is set"
        if shared.walks and not a.is_due(name):
            yield f"shared limit {name} has nodes that must follow, and its timer is not due"


def _leases_are_at_their_shared_limits(a: Audit) -> Iterator[str]:
    indexed = a.space.one("indexed_tasks", {})
    limits: set[tuple[str, str]] = set()
    shares: set[tuple[tuple[str, ...], str]] = set()
    for fence, lease in a.space.leases.items():
        if indexed.get(lease.task) == "all":
            limits.add((f"/{lease.task}", fence))
            shares.add(((lease.workspace, lease.task), fence))
        elif a.levels.of_shared(f"/{lease.task}") is not None:
            yield f"task {lease.task} has a limit, and not all of its leases are indexed"
        ws = a.space.workspaces.get(lease.workspace)
        if ws is not None and ws.parent is not None:
            limits.add((f"@{ws.parent}", fence))
    new = {task for task, state in indexed.items() if state != "all"}
    there = {
        (key, fence) for key, fence in a.members("slots_of_shared_limit") if key[1:] not in new
    }
    yield from unequal("slots of shared limits", there, "leases", limits)
    slots = a.space.all("slots_of_workspace_task")
    of_tasks = {
        (names, fence) for names, fences in slots for fence in fences if names[1] not in new
    }
    yield from unequal("slots of tasks in workspaces", of_tasks, "leases", shares)


def _inner_nodes_weigh_as_much_as_their_members(a: Audit) -> Iterator[str]:
    members, totals, held = Counter[str](), Counter[str](), Counter[str]()
    for name, stand, node in a.stands():
        members[node] += 1
        held[node] += stand.state in HELD
        ws = a.space.workspaces.get(name)
        weight = ws.weight if ws else a.space.inner_nodes[name].weight
        totals[node] += fair.units_of(weight) if stand.state in {"ready", "busy"} else 0
    for b in a.space.inner_nodes.values():
        if (b.members, b.total) != (members[b.id], totals[b.id]):
            there = f"{members[b.id]} that weigh {totals[b.id]}"
            yield f"inner node {b.id} counts {b.members} that weigh {b.total}, there are {there}"
        if b.held != held[b.id]:
            yield f"inner node {b.id} counts {b.held} that are held back, there are {held[b.id]}"
        if not b.group and b.total and abs(fair.weight_of(b.total) - b.weight) > ALMOST:
            yield f"inner node {b.id} weighs {b.weight}, its members {b.total}"


def _inner_nodes_are_listed(a: Audit) -> Iterator[str]:
    wanted = {(b.limit_key, b.id) for b in a.space.inner_nodes.values()}
    there = a.members("nodes_of_shared_limit")
    yield from unequal("lists of shared limits", there, "inner nodes", wanted)
    known = {*a.space.inner_nodes, *a.space.nodes}
    for name, _, node in a.stands():
        if node not in known:
            yield f"{decode(name)!r} stands in {node}, which is not there"


def _groups_are_what_is_set(a: Audit) -> Iterator[str]:
    for ws in a.space.workspaces.values():
        if ws.parent != a.levels.parent_of(ws.name) and not a.draining:
            yield f"{decode(ws.name)!r} is in group {ws.parent}, not {a.levels.parent_of(ws.name)}"


def _nothing_is_left_of_an_inner_node(a: Audit) -> Iterator[str]:
    for b in a.space.inner_nodes.values():
        if b.state == "idle" and not b.members:
            yield f"inner node {b.id} is idle and empty"


NODE_CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[str]]], ...] = (
    ("I1", _inner_nodes_stand_where_they_should),
    ("I10", _closed_shared_limits_are_full_or_wait),
    ("I4", _leases_are_at_their_shared_limits),
    ("I5", _inner_nodes_weigh_as_much_as_their_members),
    ("I3", _inner_nodes_are_listed),
    ("I3", _groups_are_what_is_set),
    ("I11", _nothing_is_left_of_an_inner_node),
)
