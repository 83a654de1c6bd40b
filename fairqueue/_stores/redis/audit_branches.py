"""Checks of branches and gates: limits that many workspaces share inside a queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from fairqueue import _fairness as fair
from fairqueue._keys import decode
from fairqueue._stores.redis.looking import Audit

ALMOST = 1e-6


def _branches_stand_where_they_should(a: Audit) -> Iterator[str]:
    """In its node exactly while somebody in it is runnable and its gate is open."""
    for b in a.space.branches.values():
        runnable, closed = bool(a.space.of("ready", b.id)), a.closed(b.gate)
        wanted = {closed or "ready"} if runnable else {"idle", "busy", "rest"}
        if b.state not in wanted and not a.draining and not a.is_due(b.gate):
            yield f"branch {b.id} is {b.state}, not {wanted}"
        if (b.serial is not None) != (b.state == "ready"):
            yield f"branch {b.id} is {b.state} with place {b.serial}"


def _closed_gates_are_full_or_wait(a: Audit) -> Iterator[str]:
    for name, gate in a.space.gates.items():
        closed = a.closed(name) if a.space.of("branches_of_gate", name) else None
        if gate.block != closed and not a.draining and not a.is_due(name):
            yield f"gate {name} is {gate.block}, not {closed}"
        if gate.block == "rate" and gate.timer is None:
            yield f"gate {name} waits for its rate and no timer is set"


def _leases_are_at_their_gates(a: Audit) -> Iterator[str]:
    gates: dict[str, set[str]] = {}
    shares: dict[tuple[str, ...], set[str]] = {}
    for fence, lease in a.space.leases.items():
        if a.levels.of_gate(f"/{lease.task}") is not None:
            gates.setdefault(f"/{lease.task}", set()).add(fence)
            shares.setdefault((lease.workspace, lease.task), set()).add(fence)
        parent = a.space.workspaces[lease.workspace].parent
        if parent is not None:
            gates.setdefault(f"@{parent}", set()).add(fence)
    there = {names[0]: slots for names, slots in a.space.all("slots_of_gate")}
    if there != gates:
        yield f"slots of gates {there}, leases {gates}"
    if dict(a.space.all("slots_of_share")) != shares:
        yield f"slots of tasks in workspaces {dict(a.space.all('slots_of_share'))}, leases {shares}"


def _branches_weigh_what_is_in_them(a: Audit) -> Iterator[str]:
    members, totals = Counter[str](), Counter[str]()
    for name, stand, node in a.stands():
        members[node] += 1
        ws = a.space.workspaces.get(name)
        weight = ws.weight if ws else a.space.branches[name].weight
        totals[node] += fair.units_of(weight) if stand.state in {"ready", "busy"} else 0
    for b in a.space.branches.values():
        if (b.members, b.total) != (members[b.id], totals[b.id]):
            there = f"{members[b.id]} that weigh {totals[b.id]}"
            yield f"branch {b.id} counts {b.members} that weigh {b.total}, there are {there}"
        if not b.group and b.total and abs(fair.weight_of(b.total) - b.weight) > ALMOST:
            yield f"branch {b.id} weighs {b.weight}, its members {b.total}"


def _branches_are_listed(a: Audit) -> Iterator[str]:
    wanted: dict[str, set[str]] = {}
    for b in a.space.branches.values():
        wanted.setdefault(b.gate, set()).add(b.id)
    there = {names[0]: ids for names, ids in a.space.all("branches_of_gate")}
    if there != wanted:
        yield f"branches of gates {there}, not {wanted}"
    known = {*a.space.branches, *a.space.nodes}
    for name, _, node in a.stands():
        if node not in known:
            yield f"{decode(name)!r} stands in {node}, which is not there"


def _groups_are_what_is_set(a: Audit) -> Iterator[str]:
    for ws in a.space.workspaces.values():
        if ws.parent != a.levels.parent_of(ws.name) and not a.draining:
            yield f"{decode(ws.name)!r} is in group {ws.parent}, not {a.levels.parent_of(ws.name)}"


def _nothing_is_left_of_a_branch(a: Audit) -> Iterator[str]:
    for b in a.space.branches.values():
        if b.state == "idle" and not b.members:
            yield f"branch {b.id} is idle and empty"


BRANCH_CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[str]]], ...] = (
    ("I1", _branches_stand_where_they_should),
    ("I10", _closed_gates_are_full_or_wait),
    ("I4", _leases_are_at_their_gates),
    ("I5", _branches_weigh_what_is_in_them),
    ("I3", _branches_are_listed),
    ("I3", _groups_are_what_is_set),
    ("I11", _nothing_is_left_of_a_branch),
)
