"""Checks of leases and of the slots that they hold."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from fairqueue._keys import decode
from fairqueue.audit.view import ALMOST, Audit, Found, Where, entry_of, unequal

MICROSECONDS = 1_000_000  # in a second


def _i4_leases_are_at_every_level(a: Audit) -> Iterator[Found]:
    leases = a.space.leases
    ends = set(a.space.one("expiry", {}))
    yield from unequal("expiry", ends, "leases", set(leases), stray=lambda fence: ("lease", fence))
    by_queue = {(lease.queue, lease.job, fence) for fence, lease in leases.items()}
    yield from a.differs("slots_of_queue", "leases", by_queue, _last)


def _last(slot: tuple[str, ...]) -> Where:
    return ("lease", slot[-1])


def _i4_leases_hold_their_slots(a: Audit) -> Iterator[Found]:
    indexed = a.space.one("indexed_tasks", {})
    wanted: set[tuple[str, str]] = set()
    moving: set[tuple[str, str]] = set()
    for fence, lease in a.space.leases.items():
        wanted.add((lease.workspace, fence))
        if indexed.get(lease.task) == "all":
            wanted |= {(f"/{lease.task}", fence), (f"{lease.workspace}/{lease.task}", fence)}
        elif a.levels.of_shared(f"/{lease.task}") is not None:
            text = f"task {lease.task} has a limit, and not all of its leases are indexed"
            yield ("field", "indexed_tasks", lease.task), text
        ws = a.space.workspaces.get(lease.workspace)
        if ws is not None and ws.parent is not None:
            wanted.add((f"@{ws.parent}", fence))
        if ws is not None and ws.other_group is not None:
            moving.add((f"@{ws.other_group}", fence))
    new = {task for task, state in indexed.items() if state != "all"}
    slots = {slot for slot in a.entries("slots") if slot[0].partition("/")[2] not in new}
    there, stray = slots - (moving - wanted), entry_of("slots")
    yield from unequal("slots", there, "leases", wanted, stray=stray, lacking=_last)


def _i4_fences_are_in_order(a: Audit) -> Iterator[Found]:
    leases, ends_of = a.space.leases, a.space.lease_ends
    for fence, lease in leases.items():
        if not lease.claimed * MICROSECONDS < int(fence) <= a.last_fence:
            text = f"fence {fence} of {lease.claimed:f} is out of order: {a.last_fence} is the last"
            yield ("lease", fence), text
        ends = ends_of.get(fence, a.now)
        if ends > a.now + lease.length + ALMOST:
            text = f"the lease of fence {fence} ends at {ends:f}, and is {lease.length} s long"
            yield ("lease", fence), text
        if lease.ended is not None and lease.ended >= ends:
            text = f"the lease of fence {fence} ended at {lease.ended:f}, and was not spared"
            yield ("lease", fence), text


def _i4_last_dispatches_have_the_highest_fences(a: Audit) -> Iterator[Found]:
    for queue, node in a.space.nodes.items():
        if node.last_fence > a.last_fence:
            text = f"{decode(queue)!r} was served with fence {node.last_fence}, above the last one"
            yield ("node", queue), text
    for fence, lease in a.space.leases.items():
        if lease.queue in a.space.nodes and int(fence) > a.space.nodes[lease.queue].last_fence:
            text = f"fence {fence} is above that of the last dispatch of {decode(lease.queue)!r}"
            yield ("node", lease.queue), text


def _i12_time_does_not_go_back(a: Audit) -> Iterator[Found]:
    for fence, lease in a.space.leases.items():
        if lease.claimed > a.beat:
            yield (
                ("lease", fence),
                f"fence {fence} was issued at {lease.claimed}, after the last beat, {a.beat}",
            )


def _i12_time_is_looked_at_before_it_brings_anything(a: Audit) -> Iterator[Found]:
    first = min((*a.space.lease_ends.values(), *a.space.one("timer", {}).values()), default=inf)
    if first < a.due - ALMOST:
        text = f"a lease or timer is due at {first:f}, and no call looks before {a.due:f}"
        yield ("shard",), text
