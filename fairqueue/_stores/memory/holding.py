"""What holds a lane back now: all of it, for who asks. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fairqueue import _fairness as fair
from fairqueue._keys import decode
from fairqueue._stores.memory.limits import (
    Effective,
    limits_of,
    limits_of_all,
    limits_of_group,
    limits_of_queue,
    limits_of_task,
)
from fairqueue._stores.memory.state import Branch, Flow, Gate, State, Workspace, group_gate
from fairqueue._types import Hold

SEEN = 128  # where more run, nobody looks since when a level is full
WORKER_SECONDS = 5.0  # longer than an idle worker takes to come
ALMOST = 1e-9


def _chain(flow: Flow) -> Iterator[Flow | Branch]:
    """A flow and the branches above it."""
    at: Flow | Branch = flow
    yield at
    while isinstance(at.up, Branch):
        at = at.up
        yield at


def _since(flow: Flow, state: str, gate: str | None = None) -> float | None:
    """Since when a flow, or a branch above it that a gate closes, stands like this."""
    stands = (at for at in _chain(flow) if at.state == state and getattr(at, "gate", None) == gate)
    return next((at.since for at in stands), None)


def _full(
    s: State,
    scope: str,
    name: str,
    limit: int | None,
    slots: Collection[int],
    since: float | None = None,
) -> Iterator[Hold]:
    """A full level is so since the last start there, unless its limit was lowered since."""
    if limit is None or len(slots) < limit:
        return
    if since is None and len(slots) <= SEEN:
        since = max((s.leases[fence].claimed for fence in slots), default=None)
    yield Hold("concurrency", scope, name, limit=float(limit), used=len(slots), since=since)


def _paused(s: State, scope: str, name: str, limits: Effective) -> Iterator[Hold]:
    if limits.paused:
        yield Hold("pause", scope, name, since=s.held_since.get((scope, name)))


def _rated(
    s: State, scope: str, name: str, limits: Effective, tat: float, since: float | None
) -> Iterator[Hold]:
    if not limits.rate:
        return
    at = fair.next_start(tat, limits.rate, limits.burst)
    if at > s.now + ALMOST:
        yield Hold("rate", scope, name, limit=limits.rate, since=since, until=at)


def _of_task(s: State, ws: Workspace, flow: Flow, number: str) -> Iterator[Hold]:
    found = limits_of_task(s, number)
    if found is None:
        return
    limits = found.seen
    key, name = f"/{number}", s.task_names[int(number) - 1]
    gate, share = s.gates.get(key) or Gate(key), s.shares.get((ws.name, number), set())
    most, lane = limits.workspace_concurrency, _since(flow, "lane")
    yield from _full(s, "workspace_task", name, most, share, lane)
    yield from _full(s, "task", name, limits.concurrency, gate.slots, _since(flow, "parked", key))
    yield from _rated(s, "task", name, limits, gate.tat, _since(flow, "rate", key))


def _of_group(s: State, ws: Workspace, flow: Flow) -> Iterator[Hold]:
    if ws.parent is None:
        return
    key = group_gate(ws.parent)
    gate, most = s.gates.get(key) or Gate(key), limits_of_group(s, ws.parent).seen.concurrency
    since = _since(flow, "parked", key)
    yield from _full(s, "group", decode(key[1:]), most, gate.slots, since)


def _of_worker(s: State, flow: Flow) -> Iterator[Hold]:
    """What time has opened since nobody has seen: then it is since anybody came at all."""
    chain = list(_chain(flow))
    is_ready, since = all(at.serial is not None for at in chain), max(at.since for at in chain)
    if s.node(flow.queue).slots or (is_ready and flow.queue not in s.tokens.lying):
        return
    since = since if is_ready else max(since, s.beat or 0.0)
    if s.now - since > WORKER_SECONDS:
        yield Hold("worker", "queue", flow.queue, since=since)


def _pauses(s: State, ws: Workspace, flow: Flow, number: str) -> Iterator[Hold]:
    yield from _paused(s, "total", "", limits_of_all(s))
    yield from _paused(s, "queue", flow.queue, limits_of_queue(s, flow.queue))
    yield from _paused(s, "workspace", ws.name, limits_of(s, ws))
    task = limits_of_task(s, number)
    if task is not None:
        yield from _paused(s, "task", s.task_names[int(number) - 1], task)


def at_limits(s: State, ws: Workspace, flow: Flow, number: str) -> Iterator[Hold]:
    """Every limit that a job of this task, in this lane, is at, whether or not it holds."""
    own, queue = limits_of(s, ws).seen, limits_of_queue(s, flow.queue).seen
    yield from _full(s, "workspace", ws.name, own.concurrency, ws.slots, _since(flow, "parked"))
    yield from _rated(s, "workspace", ws.name, own, ws.tat, _since(flow, "rate"))
    yield from _of_task(s, ws, flow, number)
    yield from _of_group(s, ws, flow)
    yield from _full(s, "queue", flow.queue, queue.concurrency, s.node(flow.queue).slots)
    yield from _full(s, "total", "", limits_of_all(s).seen.concurrency, s.leases)


def holds_of(s: State, ws: Workspace, flow: Flow, number: str) -> tuple[list[Hold], list[Hold]]:
    """All that keeps a job of this task, in this lane, from starting now, and all that would."""
    limits = list(at_limits(s, ws, flow, number))
    would = limits if limits_of(s, ws).would else []
    holds = [*_pauses(s, ws, flow, number), *([] if would else limits)]
    return holds or list(_of_worker(s, flow)), would
