"""Checks of where jobs stand: in lanes, in schedules, or leased."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fairqueue._keys import decode
from fairqueue.audit.keyspace import SharedLimitRow, WorkspaceRow, expires_at
from fairqueue.audit.view import (
    Audit,
    Found,
    Where,
    id_of,
    job_of,
    limited,
    unequal,
)


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
