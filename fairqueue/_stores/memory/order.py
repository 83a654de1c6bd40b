"""Places in a node's order: entering with a tag, leaving, and moving by a charge or a weight.

Who stands in an order is a workspace, by one of its flows, or a branch, which is its own flow.
"""

from __future__ import annotations

from fairqueue import _fairness as fair
from fairqueue._keys import decode
from fairqueue._stores.memory.state import Branch, Flow, Node, State, Workspace

Who = Workspace | Branch
Stand = Flow | Branch


def place(who: Who, flow: Stand) -> None:
    """Put a flow where its tag belongs; equal tags in the order of entering."""
    if flow.serial is not None:
        flow.up.ready.put((flow.serial, who.key), flow.tag)
        if flow.goes_first:
            flow.up.foremost.put((flow.serial, who.key), flow.tag)


def leave(who: Who, flow: Stand) -> None:
    """Take a flow out of the ready set."""
    if flow.serial is not None:
        flow.up.ready.take((flow.serial, who.key))
        flow.up.foremost.take((flow.serial, who.key))
        flow.serial, flow.goes_first = None, False


def rank(who: Who, flow: Stand, *, is_below: bool) -> None:
    """Go first while its workspace, or one in its branch, runs below its reserve."""
    if flow.serial is None or flow.goes_first == is_below:
        return
    flow.goes_first = is_below
    if is_below:
        flow.up.foremost.put((flow.serial, who.key), flow.tag)
    else:
        flow.up.foremost.take((flow.serial, who.key))


def finish_of(who: Who, flow: Stand) -> float | None:
    """F, the tag of the last dispatch; None: never served here, or forgotten."""
    return flow.up.finish.scores.get(who.key)


def set_finish(who: Who, flow: Stand, finish: float) -> None:
    """Remember F."""
    flow.up.finish.put(who.key, finish)


def stand(s: State, flow: Stand, state: str) -> None:
    """Record how a flow stands, and since when."""
    if flow.state != state:
        flow.state, flow.since = state, s.now


def member(s: State, node: Node, key: str) -> tuple[Who, Stand]:
    """Who stands in this node under this key."""
    if key in s.branches:
        return s.branches[key], s.branches[key]
    ws = s.workspace(decode(key))
    return ws, next(flow for flow in ws.flows if flow.up is node)


def head_of(s: State, node: Node) -> tuple[Who, Stand] | None:
    """Who has the lowest tag."""
    first = node.ready.first()
    return None if first is None else member(s, node, first[1][1])


def turn_of(s: State, node: Node) -> tuple[Who, Stand] | None:
    """Who is below its reserve goes before all that are not; else it is the lowest tag."""
    first = node.foremost.first()
    return head_of(s, node) if first is None else member(s, node, first[1][1])


def weight_of(who: Who) -> float:
    """The weight under which it was last settled."""
    return who.weight or 1.0


def _catch_up(s: State, node: Node) -> None:
    head = head_of(s, node)
    if head is None:
        node.v = fair.caught_up(node.v, None, 0.0, node.finish.highest())
    else:
        who, flow = head
        node.v = fair.caught_up(node.v, flow.tag, flow.cost / weight_of(who), None)


def enter(s: State, who: Who, flow: Stand, cost: float) -> None:
    """Give a runnable flow its tag, which is then fixed."""
    node, step = flow.up, cost / weight_of(who)
    node.resting.take(who.key)
    if flow.state in {"idle", "rest", "busy", "paused"}:
        _catch_up(s, node)
    finish = finish_of(who, flow)
    flow.tag = fair.base_of(flow.state, node.v, finish, step, node.big) + step
    s.serial += 1
    flow.cost, flow.serial = cost, s.serial
    place(who, flow)
    stand(s, flow, "ready")
    s.touched.add(flow.queue)


def start(who: Who, flow: Stand, cost: float) -> None:
    """Its turn has come, for a job of this cost: F and V move, and it leaves until it is settled.

    What a branch has in its tag is the cost of who was first in it when it entered.
    """
    node, weight = flow.up, weight_of(who)
    step = flow.cost / weight
    if flow.goes_first and node.ready.first() != (flow.tag, (flow.serial, who.key)):
        # Others have lower tags: V stays, else it ran ahead of them. F has a bound, else who
        # started by its reserve paid for ever; but not below the next one's tag, else those of
        # whom more is reserved than there is would lose their order.
        most = max(fair.farthest(node.v, step, node.big), node.foremost.second() or 0.0)
        flow.tag = min(flow.tag, most)
    else:
        node.v = max(node.v, flow.tag)
    node.big = fair.largest_step(node.big, step)
    set_finish(who, flow, flow.tag + (cost - flow.cost) / weight)
    leave(who, flow)


def _shift(who: Who, flow: Stand, seconds: float) -> None:
    shift, finish = seconds / weight_of(who), finish_of(who, flow)
    set_finish(who, flow, (flow.up.v if finish is None else finish) + shift)
    flow.tag += shift
    place(who, flow)


def charge(s: State, ws: Workspace, place: tuple[str, str], seconds: float) -> None:
    """Move F, and the tag with it, by worker-seconds used more or less than charged.

    ``place`` is the queue, and the task if it has a node of its own.
    """
    if seconds == 0:
        return
    flow = s.flow(ws, *place)
    _shift(ws, flow, seconds)
    node = flow.up
    while isinstance(node, Branch):
        _shift(node, node, seconds)
        node = node.up


def reweigh(who: Who, flow: Stand, ratio: float) -> None:
    """Rescale distances from V for a new weight, as if old charges had been made under it."""
    v, finish = flow.up.v, finish_of(who, flow)
    if finish is not None:
        set_finish(who, flow, fair.rescaled(finish, v, ratio))
    flow.tag = fair.rescaled(flow.tag, v, ratio)
    place(who, flow)
