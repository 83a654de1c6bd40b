"""Takes up to n jobs, in fair order, from queues that take turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairqueue._stores.memory.ending import finish_all
from fairqueue._stores.memory.lease import grant
from fairqueue._stores.memory.limits import is_open
from fairqueue._stores.memory.order import head_of
from fairqueue._stores.memory.settle import blocked, settle, sweep_resting
from fairqueue._stores.memory.state import Flow, Held, Node, State, Workspace
from fairqueue._stores.memory.sweep import SWEEP_MOST, sweep
from fairqueue._stores.memory.wake import unwatch, watch
from fairqueue._types import Finish


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


@dataclass(frozen=True, slots=True)
class Taken:
    """What it got, by fence, so that a repeat gives only what still lives."""

    fences: tuple[int, ...]
    lost: frozenset[int]
    wait_seconds: float


def _runnable(s: State, node: Node) -> tuple[Workspace, Flow] | None:
    """The flow at the head of an open queue, never one that is blocked (a lowered limit)."""
    for _ in range(SWEEP_MOST):
        head = head_of(s, node) if is_open(s, node) else None
        if head is None or not blocked(s, head[0]):
            return head
        settle(s, head[0])
    return None


def _next_job(s: State, wanted: Claim, turn: int) -> Held | None:
    count = len(wanted.queues)
    for i in range(count):
        head = _runnable(s, s.node(wanted.queues[(turn + i) % count]))
        if head is not None:
            return grant(s, *head, wanted.owner, wanted.lease_seconds)
    return None


def _take(s: State, wanted: Claim) -> Iterator[int]:
    """Lease until there are n or nothing is runnable."""
    for taken in range(wanted.n):
        held = _next_job(s, wanted, wanted.number + taken)
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
        return Taken(fences, lost, watch(s, wanted.owner, poll_seconds))
    unwatch(s, wanted.owner, wanted.queues, poll_seconds)
    return Taken(fences, lost, 0.0)
