"""Takes up to n jobs, in fair order, from queues that take turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fairqueue._stores.memory.ending import finish_all
from fairqueue._stores.memory.expiring import fire
from fairqueue._stores.memory.gates import above, block_of, lane_block
from fairqueue._stores.memory.lanes import pop, push
from fairqueue._stores.memory.lease import grant
from fairqueue._stores.memory.limits import is_open, place_of
from fairqueue._stores.memory.order import turn_of
from fairqueue._stores.memory.settle import blocked, settle, sweep_resting
from fairqueue._stores.memory.state import Branch, Flow, Held, Node, State, Workspace
from fairqueue._stores.memory.sweep import SWEEP_MOST, sweep
from fairqueue._stores.memory.wake import unwatch, watch
from fairqueue._types import Finish

REROUTED_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claimer asks for, and the endings that it brings."""

    owner: str
    number: int
    queues: Sequence[str]
    n: int
    lease_seconds: float
    max_deliveries: int | None
    finishes: Sequence[Finish]
    shy: bool


@dataclass(frozen=True, slots=True)
class Taken:
    """What it got, by fence, so that a repeat gives only what still lives."""

    fences: tuple[int, ...]
    lost: frozenset[int]
    wait_seconds: float


def _first(s: State, node: Node) -> tuple[Workspace, Flow] | None:
    """The flow whose turn it is: at the head of the queue, or of the branch at its head."""
    head = turn_of(s, node)
    while head is not None and isinstance(head[0], Branch):
        head = turn_of(s, head[0])
    return head  # type: ignore[return-value]


def _is_stale(s: State, ws: Workspace, flow: Flow) -> bool:
    """It may not start after all: a limit was lowered, or its task got a limit of its own."""
    if blocked(s, ws) or lane_block(s, ws, flow) or any(map(partial(block_of, s), above(s, flow))):
        return True
    number = place_of(s, flow.first().job.task)
    if flow.task or not number:
        return False
    _reroute(flow, s.flow(ws, flow.queue, number))
    return True


def _reroute(flow: Flow, to: Flow) -> None:
    """Move the first job, and those of its task that follow it, to their task's own lane."""
    first = flow.first().job
    for _ in range(REROUTED_AT_ONCE):
        push(to, pop(flow))
        following = flow.first().job if flow.lanes else None
        if following is None or (following.task, following.priority) != (
            first.task,
            first.priority,
        ):
            return


def _runnable(s: State, node: Node) -> tuple[Workspace, Flow] | None:
    """The flow whose turn it is in an open queue, never one that is blocked."""
    for _ in range(SWEEP_MOST):
        head = _first(s, node) if is_open(s, node) else None
        if head is None or not (fire(s, head[0], SWEEP_MOST) or _is_stale(s, *head)):
            return head
        settle(s, head[0])
    return None


def _next_job(s: State, wanted: Claim) -> Held | None:
    """The turn passes on with each job, as the fence does; queues without work have none."""
    queues = wanted.queues
    head = None
    if len(queues) > 1:
        known = [queue for queue in queues if queue in s.nodes]
        queues = [queue for queue in known if s.nodes[queue].ready]
        head = _in_turn(s, [queue for queue in known if s.nodes[queue].foremost])
    head = head or _in_turn(s, queues)
    return None if head is None else grant(s, *head, wanted.owner, wanted.lease_seconds)


def _in_turn(s: State, queues: Sequence[str]) -> tuple[Workspace, Flow] | None:
    for i in range(len(queues)):
        head = _runnable(s, s.node(queues[(s.fence + i) % len(queues)]))
        if head is not None:
            return head
    return None


def _take(s: State, wanted: Claim) -> Iterator[int]:
    """Lease until there are n or nothing is runnable."""
    for _ in range(wanted.n):
        held = _next_job(s, wanted)
        if held is None:
            return
        yield held.fence


def _forget_resting(s: State, queues: Sequence[str]) -> None:
    """V has moved: some have nothing left."""
    for queue in queues:
        sweep_resting(s, s.node(queue), SWEEP_MOST)


def claim(s: State, wanted: Claim, poll_seconds: float) -> Taken:
    """Finish what the owner brings, bring back what is due, lease up to n jobs."""
    lost = finish_all(s, wanted.finishes)
    sweep(s, wanted.lease_seconds, wanted.max_deliveries)
    fences = tuple(_take(s, wanted))
    if fences:
        _forget_resting(s, wanted.queues)
    s.touched.update(wanted.queues)  # it passes a token on, or deletes it
    if len(fences) < wanted.n:
        return Taken(fences, lost, watch(s, wanted.owner, poll_seconds, shy=wanted.shy))
    unwatch(s, wanted.owner, wanted.queues, poll_seconds)
    return Taken(fences, lost, 0.0)
