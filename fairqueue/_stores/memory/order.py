"""Places in a node's order: entering with a tag, leaving, and moving by a charge or a weight."""

from __future__ import annotations

from fairqueue import _fairness as fair
from fairqueue._stores.memory.state import Flow, Node, State, Workspace


def place(s: State, ws: Workspace, flow: Flow) -> None:
    """Put a flow where its tag belongs; equal tags in the order of entering."""
    if flow.serial is not None:
        s.node(flow.queue).ready.put((flow.serial, ws.name), flow.tag)


def leave(s: State, ws: Workspace, flow: Flow) -> None:
    """Take a flow out of the ready set."""
    if flow.serial is not None:
        s.node(flow.queue).ready.take((flow.serial, ws.name))
        flow.serial = None


def finish_of(s: State, ws: Workspace, queue: str) -> float | None:
    """F, the tag of the last dispatch; None: never served here, or forgotten."""
    return s.node(queue).finish.scores.get(ws.name)


def set_finish(s: State, ws: Workspace, queue: str, finish: float) -> None:
    """Remember F."""
    s.node(queue).finish.put(ws.name, finish)


def stand(s: State, flow: Flow, state: str) -> None:
    """Record how a flow stands, and since when."""
    if flow.state != state:
        flow.state, flow.since = state, s.now


def head_of(s: State, node: Node) -> tuple[Workspace, Flow] | None:
    """The flow whose turn it is."""
    first = node.ready.first()
    if first is None:
        return None
    ws = s.workspace(first[1][1])
    return ws, s.flow(ws, node.queue)


def weight_of(ws: Workspace) -> float:
    """The weight under which a workspace was last settled."""
    return ws.weight or 1.0


def _catch_up(s: State, node: Node) -> None:
    head = head_of(s, node)
    if head is None:
        node.v = fair.caught_up(node.v, None, 0.0, node.finish.highest())
    else:
        ws, flow = head
        node.v = fair.caught_up(node.v, flow.tag, flow.cost / weight_of(ws), None)


def enter(s: State, ws: Workspace, flow: Flow, cost: float) -> None:
    """Give a runnable flow its tag, which is then fixed."""
    node, step = s.node(flow.queue), cost / weight_of(ws)
    node.resting.take(ws.name)
    if flow.state in {"idle", "rest"}:
        _catch_up(s, node)
    finish = finish_of(s, ws, flow.queue)
    flow.tag = fair.base_of(flow.state, node.v, finish, step, node.big) + step
    s.serial += 1
    flow.cost, flow.serial = cost, s.serial
    place(s, ws, flow)
    stand(s, flow, "ready")
    s.touched.add(flow.queue)


def charge(s: State, ws: Workspace, queue: str, seconds: float) -> None:
    """Move F, and the tag with it, by worker-seconds used more or less than charged."""
    if seconds == 0:
        return
    flow, shift, finish = s.flow(ws, queue), seconds / weight_of(ws), finish_of(s, ws, queue)
    set_finish(s, ws, queue, (s.node(queue).v if finish is None else finish) + shift)
    flow.tag += shift
    place(s, ws, flow)


def reweigh(s: State, ws: Workspace, flow: Flow, ratio: float) -> None:
    """Rescale distances from V for a new weight, as if old charges had been made under it."""
    v, finish = s.node(flow.queue).v, finish_of(s, ws, flow.queue)
    if finish is not None:
        set_finish(s, ws, flow.queue, fair.rescaled(finish, v, ratio))
    flow.tag = fair.rescaled(flow.tag, v, ratio)
    place(s, ws, flow)
