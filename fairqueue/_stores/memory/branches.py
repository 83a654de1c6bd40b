"""Where a branch stands among its siblings: settled from a workspace's flow up to the queue."""

from __future__ import annotations

from fairqueue import _fairness as fair
from fairqueue._keys import decode
from fairqueue._stores.memory.gates import arm, block_of
from fairqueue._stores.memory.limits import limits_of_group
from fairqueue._stores.memory.order import (
    Stand,
    Who,
    enter,
    finish_of,
    head_of,
    leave,
    rank,
    reweigh,
    stand,
    weight_of,
)
from fairqueue._stores.memory.state import Branch, Gate, Node, State

COUNTS = frozenset({"ready", "busy"})


def count(who: Who, flow: Stand, *, gone: bool = False) -> None:
    """Let a member that is ready or busy add its weight to its branch, others nothing."""
    counts = flow.state in COUNTS and not gone
    share = fair.units_of(weight_of(who)) if counts else 0
    if isinstance(flow.up, Branch):
        flow.up.total += share - flow.share
    flow.share = share


def settle_branches(s: State, node: Node) -> None:
    """Settle a node and all that it is in, up to the queue."""
    while isinstance(node, Branch):
        _settle(s, node)
        node = node.up


def look(s: State, gate: Gate) -> None:
    """A slot was taken or freed, or time has passed: the gate's branches close or open."""
    block = block_of(s, gate) if gate.branches else None
    changed, gate.block = block != gate.block, block
    arm(s, gate)
    if changed:
        settle_gate(s, gate)
    _tidy(s, gate)


def settle_gate(s: State, gate: Gate) -> None:
    """Settle every branch of a gate."""
    for key in sorted(gate.branches):
        if key in s.branches:
            settle_branches(s, s.branches[key])


def _tidy(s: State, gate: Gate) -> None:
    """Forget a gate that nobody stands behind."""
    waits = gate.block or gate.timer is not None or gate.tat > s.now
    if not gate.branches and not gate.slots and not waits:
        s.gates.pop(gate.key, None)


def _settle(s: State, b: Branch) -> None:
    _weigh(s, b)
    look(s, s.gate(b.gate))
    block = s.gate(b.gate).block
    if not len(b.ready):
        _retire(s, b)
    elif block:
        leave(b, b)
        b.up.resting.take(b.key)
        stand(s, b, block)
    elif b.serial is None:
        _enter(s, b)
    rank(b, b, is_below=len(b.foremost) > 0)
    count(b, b)


def _enter(s: State, b: Branch) -> None:
    head = head_of(s, b)
    if head is not None:
        enter(s, b, b, head[1].cost)


def _weigh(s: State, b: Branch) -> None:
    old = b.weight
    if b.gate[0] == "@":
        b.weight = limits_of_group(s, decode(b.gate[1:])).weight
    elif b.total:
        b.weight = fair.weight_of(b.total)
    if old != b.weight:
        reweigh(b, b, old / b.weight)


def _retire(s: State, b: Branch) -> None:
    """A branch in which nobody is runnable; it is forgotten as a workspace is."""
    leave(b, b)
    finish = finish_of(b, b)
    if len(b.resting) < b.members:  # somebody runs, or is held back by a limit of its own
        b.up.resting.take(b.key)
        stand(s, b, "busy" if b.total else "idle")
    elif b.members or (finish is not None and finish > b.up.v):
        _rest(s, b, finish)
    else:
        _forget(s, b)


def _rest(s: State, b: Branch, finish: float | None) -> None:
    """Nobody is here: who came next would find V level with the highest F, so it may rise now."""
    b.v = fair.caught_up(b.v, None, 0.0, b.finish.highest())
    b.up.resting.put(b.key, b.up.v if finish is None else finish)
    stand(s, b, "rest")


def _forget(s: State, b: Branch) -> None:
    b.up.finish.take(b.key)
    b.up.resting.take(b.key)
    stand(s, b, "idle")
    if s.branches.pop(b.key, None) is not None:
        s.gate(b.gate).branches.discard(b.key)
        look(s, s.gate(b.gate))
        s.add_member(b.up, -1)
