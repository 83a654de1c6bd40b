"""Checks of inner nodes and of the limits that many workspaces share."""

from __future__ import annotations

from collections.abc import Iterator

from fairqueue._keys import decode
from fairqueue._stores import fairness as fair
from fairqueue.audit.view import ALMOST, Audit, Found, entity


def _i1_inner_nodes_stand_where_they_should(a: Audit) -> Iterator[Found]:
    """An inner node is ready exactly while a member is runnable and its shared limit is open."""
    for b in a.space.inner_nodes.values():
        runnable, closed = bool(a.space.of("ready", b.id)), a.closed(b.limit_key)
        resting = {"at_task_limit"} if b.held else {"idle", "busy", "idle_with_debt"}
        wanted = {closed or "ready"} if runnable else resting
        if b.state not in wanted and not a.draining and not a.is_due(b.limit_key):
            yield ("node", b.id), f"inner node {b.id} is {b.state}, not {wanted}"


def _i10_closed_shared_limits_are_full_or_wait(a: Audit) -> Iterator[Found]:
    for name, shared in a.space.shared_limits.items():
        where = "shared_limit", name
        closed = a.closed(name) if a.space.of("nodes_of_shared_limit", name) else None
        if shared.block != closed and not a.draining and not a.is_due(name):
            yield where, f"shared limit {name} is {shared.block}, not {closed}"
        if shared.block == "rate" and shared.timer is None:
            yield where, f"shared limit {name} waits for its rate and no timer is set"
        if shared.walks and not a.is_due(name):
            yield where, f"shared limit {name} has nodes that must follow, and its timer is not due"


def _i5_inner_nodes_weigh_as_much_as_their_members(a: Audit) -> Iterator[Found]:
    counts = a.counts_of_inner_nodes
    for b in a.space.inner_nodes.values():
        members, total, held = counts.get(b.id, (0, 0, 0))
        if (b.members, b.total) != (members, total):
            there = f"{members} that weigh {total}"
            text = f"inner node {b.id} counts {b.members} that weigh {b.total}, there are {there}"
            yield ("node", b.id), text
        if b.held != held:
            text = f"inner node {b.id} counts {b.held} that are held back, there are {held}"
            yield ("node", b.id), text
        if not b.group and b.total and abs(fair.weight_of(b.total) - b.weight) > ALMOST:
            text = f"inner node {b.id} weighs {b.weight}, its members {b.total}"
            yield ("node", b.id), text


def _i3_inner_nodes_are_listed(a: Audit) -> Iterator[Found]:
    wanted = {(b.limit_key, b.id) for b in a.space.inner_nodes.values()}
    lists = "nodes_of_shared_limit"
    yield from a.differs(lists, "inner nodes", wanted, lambda one: ("node", one[1]))
    known = {*a.space.inner_nodes, *a.space.nodes}
    for name, _, node in a.stands():
        if node not in known:
            yield entity(name), f"{decode(name)!r} stands in {node}, which does not exist"


def _i3_groups_are_what_is_set(a: Audit) -> Iterator[Found]:
    for ws in a.space.workspaces.values():
        if ws.moves:
            if ws.timer is None or ws.timer > a.now:
                text = f"{decode(ws.name)!r} moves between groups, and its timer is not due"
                yield ("workspace", ws.name), text
        elif ws.parent != a.levels.parent_of(ws.name) and not a.draining:
            text = f"{decode(ws.name)!r} is in group {ws.parent}, not {a.levels.parent_of(ws.name)}"
            yield ("workspace", ws.name), text


def _i11_nothing_is_left_of_an_inner_node(a: Audit) -> Iterator[Found]:
    for b in a.space.inner_nodes.values():
        if b.state == "idle" and not b.members:
            yield ("node", b.id), f"inner node {b.id} is idle and empty"
