"""Checks of where jobs, leases and web requests stand: each in one place, within its limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import inf

from fairqueue._keys import decode
from fairqueue.audit.keyspace import SharedLimitRow, WorkspaceRow, expires_at
from fairqueue.audit.view import (
    ALMOST,
    Audit,
    Found,
    Where,
    entry_of,
    id_of,
    job_of,
    limited,
    unequal,
)
from fairqueue.plain import counted

MICROSECONDS = 1_000_000  # in a second
TURN = "turn"
"""A member of a workspace's tickets: its own turn among those that wait."""


def _lane(names: tuple[object, ...]) -> Where:
    """Name a lane by its workspace, lane key and priority."""
    return ("lane", *map(str, names[:3]))


def _of(first: tuple[str, float]) -> Where:
    return ("workspace", first[0])


def _i3_jobs_are_in_one_place(a: Audit) -> Iterator[Found]:
    places = a.places_by_job
    jobs = {(names[0], job) for names, records in a.space.all("jobs") for job in records}
    for job in jobs | set(places):
        n = len(places.get(job, ()))
        if job not in jobs or n != 1:
            kept = "a record" if job in jobs else "no record"
            yield ("job", *job), f"job {job} has {kept} and is in {n} places"


def _i3_lanes_are_named_by_their_flow(a: Audit) -> Iterator[Found]:
    there = {names for kind in ("lane", "returned") for names, _ in a.space.all(kind)}
    wanted = {(ws.name, flow.lane_key, p) for ws, flow in a.flows() for p in flow.lanes}
    yield from unequal("lanes", there, "flows", wanted, stray=_lane)
    for ws, flow in a.flows():
        if list(flow.lanes) != sorted(flow.lanes, key=int):
            yield (
                ("workspace", ws.name),
                f"lanes of {decode(ws.name)!r} are out of order: {flow.lanes}",
            )


def _i3_returned_jobs_are_in_order(a: Audit) -> Iterator[Found]:
    there = {names for names, _ in a.space.all("returned")}
    wanted = {(ws.name, flow.lane_key, p) for ws, flow in a.flows() for p in flow.returned}
    yield from unequal("returned", there, "flows", wanted, stray=_lane)
    for names, members in a.space.all("returned"):
        workspace, queue = names[0], names[1].partition("/")[0]
        records = a.space.of("jobs", queue, otherwise={})
        for element, fence in members.items():
            job = id_of(workspace, queue, element)
            history = " ".join(records.get(job, "").split(" ")[4:5])
            first = history.partition(",")[0].partition("/")[2]
            if int(first or 0) != fence:
                yield (
                    ("job", queue, job),
                    f"job {job} came back by fence {fence:.0f}, its first was {first or None}",
                )


def _i3_holes_are_counted(a: Audit) -> Iterator[Found]:
    there = {names: {e: int(n) for e, n in holes.items()} for names, holes in a.space.all("holes")}
    counted = {
        (ws.name, flow.lane_key, p, n) for ws, flow in a.flows() for p, n in flow.holes.items()
    }
    found = {(*names, sum(holes.values())) for names, holes in there.items()}
    yield from unequal("holes", found, "flows", counted, stray=_lane)
    for names, holes in there.items():
        lane = Counter(a.space.of("lane", *names))
        for element in Counter(holes) - lane:
            text = f"lane {names} has a hole without an element: {element}"
            yield ("entry", "holes", *names, element), text
        if not lane - Counter(holes):
            yield ("lane", *names), f"lane {names} has nothing but holes"


def _i6_queues_with_jobs_have_a_record(a: Audit) -> Iterator[Found]:
    for queue in {place.queue for place in a.places()} - set(a.space.nodes):
        yield ("node", queue), f"queue {decode(queue)!r} has jobs and no record"


def _i3_timers_are_those_of_the_records(a: Audit) -> Iterator[Found]:
    rows: dict[str, WorkspaceRow | SharedLimitRow] = {**a.space.workspaces, **a.space.shared_limits}
    wanted = {name: row.timer for name, row in rows.items() if row.timer is not None}
    there = set(a.space.one("timer", {}).items())
    yield from unequal(
        "timer", there, "records", set(wanted.items()), stray=lambda timer: limited(timer[0])
    )
    for kind in ("scheduled", "expiring"):
        firsts = {names[0]: min(members.values()) for names, members in a.space.all(kind)}
        noted = {(ws.name, getattr(ws, kind)) for ws in a.space.workspaces.values()}
        noted = {(name, at) for name, at in noted if at is not None}
        yield from unequal(kind, set(firsts.items()), "workspaces", noted, stray=_of)
        for name, at in firsts.items():
            timer = wanted.get(name)
            if timer is None or timer > max(at, a.now):  # a due one may stand behind others
                yield _of((name, at)), f"{decode(name)!r} has no timer for its {kind} job at {at}"


def _i3_what_expires_waits(a: Audit) -> Iterator[Found]:
    wanted: set[tuple[str, str, float]] = set()
    for place in a.waiting():
        at = expires_at(a.space.of("jobs", place.queue, otherwise={}).get(place.job, ""))
        if at is not None:
            entry = f"{place.queue} {place.priority} {place.element}"
            wanted.add((place.workspace, entry, at))
    yield from a.differs("expiring", "waiting jobs", wanted, lambda at: job_of(*at[:2]))


def _i3_waiting_for_a_rate_has_a_timer(a: Audit) -> Iterator[Found]:
    for ws, flow in a.flows():
        if flow.state in {"rate", "task_rate"} and ws.timer is None:
            text = f"{decode(ws.name)!r} waits for its rate and no timer is set"
            yield ("workspace", ws.name), text


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


def _i15_tickets_are_in_one_place(a: Audit) -> Iterator[Found]:
    there = {
        (ticket.split("/")[1], ticket, end > 0)
        for ticket, end in a.space.one("requests", {}).items()
    }
    wanted = {(name, each, not turn) for name, each, turn in _tickets(a) if each != TURN}
    yield from unequal(
        "requests",
        there,
        "workspaces",
        wanted,
        stray=lambda one: ("request", *one[:2]),
        lacking=entry_of("requests_of_workspace"),
    )


def _tickets(a: Audit) -> set[tuple[str, str, float]]:
    return a.entries("requests_of_workspace")


def _i15_turns_are_of_those_that_wait(a: Audit) -> Iterator[Found]:
    queue = {name: -turn for name, each, turn in _tickets(a) if each == TURN}
    waiting = {name for name, each, turn in _tickets(a) if turn > 0}
    of = "waiting workspaces", set(queue), "waiting requests", waiting
    yield from unequal(*of, stray=lambda name: ("request", name))
    for member, share in a.space.one("request_turns", {}).items():
        turn, _, name = member.partition(":")
        used = list(a.space.of("requests_of_workspace", name, otherwise={}).values()).count(0)
        weight = a.levels.of_workspace(name).get("weight", 1.0)
        if int(queue.get(name, 0)) != int(turn):
            text = f"{decode(name)!r} has the turn {turn}, not {queue.get(name)}"
            yield ("request", name), text
        if abs(share * weight - used - 1) > ALMOST * share:
            has = f"{decode(name)!r} has {counted(used, 'request')} in flight"
            text = f"{has}, and its turn is at {share}"
            yield ("request", name), text


def _i2_requests_are_within_their_limits(a: Audit) -> Iterator[Found]:
    if a.levels.observed:
        return
    in_flight = sum(end > 0 for end in a.space.one("requests", {}).values())
    levels = [("the total", in_flight, a.levels.of_total())]
    for (name,), tickets in a.space.all("requests_of_workspace"):
        used = list(tickets.values()).count(0)
        levels.append((f"workspace {decode(name)!r}", used, a.levels.of_workspace(name)))
    for where, used, limits in levels:
        if used > limits.get("whole_requests", limits.get("requests", used)):
            yield ("limits",), f"{where} has {counted(used, 'request')} in flight, above its limit"
