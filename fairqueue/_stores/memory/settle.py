"""Decides where a workspace stands, after every event that can change it.

No other code puts a flow into a ready set or takes one out (a claim that pops it settles next).
"""

from __future__ import annotations

from fairqueue import _fairness as fair
from fairqueue._keys import decode
from fairqueue._stores.memory.branches import count, settle_branches
from fairqueue._stores.memory.changing import join
from fairqueue._stores.memory.gates import lane_block, running_of
from fairqueue._stores.memory.limits import limits_of, limits_of_task
from fairqueue._stores.memory.means import cost_of
from fairqueue._stores.memory.order import enter, finish_of, leave, rank, reweigh, stand
from fairqueue._stores.memory.state import Branch, Flow, Node, State, Workspace
from fairqueue._stores.memory.timer import arm

ALMOST = 1e-9


def blocked(s: State, ws: Workspace) -> str | None:
    """What holds this workspace back: its rate, its own limit, or nothing."""
    limits = limits_of(s, ws)
    if limits.paused:
        return "paused"
    if limits.rate and fair.next_start(ws.tat, limits.rate, limits.burst) > s.now + ALMOST:
        return "rate"
    if limits.concurrency is not None and len(ws.slots) >= limits.concurrency:
        return "parked"
    return None


def _is_below(s: State, ws: Workspace) -> bool:
    reserve = limits_of(s, ws).reserve
    return reserve is not None and len(ws.slots) < reserve


def _weigh(s: State, ws: Workspace) -> None:
    old, ws.weight = ws.weight, limits_of(s, ws).weight
    if old is None or old == ws.weight:
        return
    for flow in ws.flows:
        reweigh(ws, flow, old / ws.weight)


def _retire(s: State, ws: Workspace, flow: Flow) -> bool:
    """An empty flow: F is forgotten once it is behind V, nothing waits and no lease lives."""
    leave(ws, flow)
    node, finish = flow.up, finish_of(ws, flow)
    limited = flow.task and limits_of_task(s, flow.task) is not None
    if finish is not None and limited and running_of(s, ws, flow.task):
        node.resting.take(ws.key)
        stand(s, flow, "busy")
        return True
    if finish is not None and not limited and ws.slots:
        if flow.state != "rest":
            stand(s, flow, "idle")
        return True
    if finish is not None and finish > node.v:
        node.resting.put(ws.key, finish)
        stand(s, flow, "rest")
        return True
    node.finish.take(ws.key)
    node.resting.take(ws.key)
    return False


def _settle_flow(s: State, ws: Workspace, flow: Flow, block: str | None) -> bool:
    """False: nothing is left of this flow."""
    if not flow.lanes:
        return _retire(s, ws, flow)
    block = block or lane_block(s, ws, flow)
    if block:
        leave(ws, flow)
        flow.up.resting.take(ws.key)
        stand(s, flow, block)
    elif flow.serial is None:
        enter(s, ws, flow, cost_of(s, ws, flow))
    rank(ws, flow, is_below=_is_below(s, ws))
    return True


def _settle_in_branch(s: State, ws: Workspace, flow: Flow, block: str | None) -> bool:
    """Its branch is settled with it."""
    kept = _settle_flow(s, ws, flow, block)
    if isinstance(flow.up, Branch):
        count(ws, flow, gone=not kept)
        flow.up.members -= not kept
        settle_branches(s, flow.up)
    return kept


def settle(s: State, ws: Workspace) -> None:
    """Ready with the tag that it had, parked, waiting for its rate, idle, or forgotten."""
    if limits_of(s, ws).parent != ws.parent:
        join(s, ws, limits_of(s, ws).parent)
    _weigh(s, ws)
    block = blocked(s, ws)
    ws.flows = [flow for flow in ws.flows if _settle_in_branch(s, ws, flow, block)]
    arm(s, ws)
    s.tidy(ws.name)


def sweep_resting(s: State, node: Node, most: int) -> None:
    """Forget resting workspaces that V has passed, a bounded number."""
    for key in node.resting.until(node.v, most):
        branch = s.branches.get(key)
        if branch is not None:
            sweep_resting(s, branch, most)
            if key in s.branches:  # else the last who was in it is forgotten, and it with him
                settle_branches(s, branch)
        else:
            settle(s, s.workspace(decode(key)))
