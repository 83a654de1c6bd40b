"""Checks the raw keys against the invariants; an empty list means that all hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fairqueue._keys import KINDS, decode
from fairqueue._shards.placement import shard_of
from fairqueue._stores.layout import read_mark
from fairqueue.audit import job_checks, lease_checks, node_checks, rebuild_checks, request_checks
from fairqueue.audit.view import ALMOST, FORMAT, Audit, Found, Where, entity, unequal

MORTAL = {kind for kind, of in KINDS.items() if of.goes == "expires"}
ESTIMATES_KEPT = 16
HELD_SECONDS = 20.0  # a schedule that is due, while a worker publishes it, at most
_STEPS = re.compile(r"[\d.]+ \S+ steps \d+ \S+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant that does not hold, and where."""

    invariant: str
    text: str
    where: Where = ()
    """Its subject: a kind of thing and its names, percent-encoded."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One finding, mended or not."""

    invariant: str
    text: str
    done: str
    """What was done, or why it failed."""
    is_mended: bool


@dataclass(frozen=True, slots=True)
class Mended:
    """All repairs, and the findings that are left."""

    repairs: tuple[Repair, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    """The findings that are left."""


def _i1_stands_where_it_should(a: Audit) -> Iterator[Found]:
    for ws, flow in a.flows():
        block = a.blocked(ws, flow) if flow.lanes else None
        wanted = {block or "ready"} if flow.lanes else {"idle", "idle_with_debt", "busy"}
        if flow.lanes and ws.timer is not None:  # the timer brings a failed flow back
            wanted.add("failed")
        if flow.state not in wanted and not (flow.lanes and (a.draining or a.follows(ws))):
            on = f"{decode(ws.name)!r} on {decode(flow.queue)!r}"
            yield ("workspace", ws.name), f"{on} is {flow.state}, not {wanted}"
    for name, stand, node in a.stands():
        if (stand.arrival is not None) != (stand.state == "ready"):
            text = f"{decode(name)!r} in {node} is {stand.state} with arrival {stand.arrival}"
            yield entity(name), text


def _member(member: tuple[str, str, float]) -> Where:
    """Return what a member of a ready set stands for: its name follows its arrival."""
    return entity(member[1].partition(":")[2])


def _i1_ready_sets_are_the_flows(a: Audit) -> Iterator[Found]:
    wanted = {
        (node, f"{stand.arrival:015}:{name}", stand.tag)
        for name, stand, node in a.stands()
        if stand.arrival is not None
    }
    yield from a.differs("ready", "flows", wanted, _member)


def _i1_reserved_are_those_below_their_reserve(a: Audit) -> Iterator[Found]:
    wanted: set[tuple[str, str, float]] = set()
    for name, stand, node in a.stands():
        if stand.reserved:
            wanted.add((node, f"{stand.arrival:015}:{name}", stand.tag))
        is_below = stand.arrival is not None and a.is_below(name)
        ws = a.space.workspaces.get(name)
        if stand.reserved != is_below and not a.draining and not (ws and a.follows(ws)):
            text = f"{decode(name)!r} in {node}: reserved: {stand.reserved}, not {is_below}"
            yield entity(name), text
    yield from a.differs("reserved", "flows", wanted, _member)


def _i2_limits_hold(a: Audit) -> Iterator[Found]:
    if a.levels.observed:
        return
    levels: list[tuple[str, int, dict[str, float]]] = [
        ("total", len(a.space.leases), a.levels.of_total())
    ]
    for (name,), slots in a.space.all("slots_of_queue"):
        levels.append((f"queue {decode(name)!r}", len(slots), a.levels.of_queue(name)))
    for (level,), slots in a.space.all("slots"):
        levels.append((f"level {decode(level)!r}", len(slots), a.levels.of_slots(level)))
    levels += _permits(a)
    for where, used, limits in levels:
        most = limits.get("concurrency", used)
        if used > most:
            yield ("limits",), f"{where} runs {used} of {most:.0f}"


def _permits(a: Audit) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yield the permits of limits wider than a shard whose home is here."""
    for (scope, name), permits in a.space.all("permits"):
        used = sum(float(end) > a.now for end in permits.values())
        of_task = a.levels.of_shared(f"/{name}") if scope == "task" else {}
        limits = {"total": a.levels.of_total(), "queue": a.levels.of_queue(name)}.get(
            scope, of_task
        )
        whole = (limits or {}).get("whole_concurrency", used)
        yield f"{scope} {decode(name)!r} over all shards", used, {"concurrency": whole}


def _i7_runnable_work_has_a_token(a: Audit) -> Iterator[Found]:
    for (queue,), _ in a.space.all("ready"):
        if queue in a.space.nodes and a.is_open(queue) and not a.space.of("token", queue):
            yield ("node", queue), f"queue {decode(queue)!r} is runnable and has no token"


def _i7_one_token_each(a: Audit) -> Iterator[Found]:
    for (queue,), tokens in a.space.all("token"):
        if len(tokens) > 1:
            yield ("node", queue), f"queue {decode(queue)!r} has {len(tokens)} tokens"


def _i11_debts_are_the_flows(a: Audit) -> Iterator[Found]:
    wanted = {
        (node, name, stand.finish_tag)
        for name, stand, node in a.stands()
        if stand.state == "idle_with_debt"
    }
    yield from a.differs("indebted", "flows", wanted, lambda debt: entity(debt[1]))
    for (node,), debts in a.space.all("indebted"):
        queue = a.space.nodes.get(node)
        if queue and queue.least_debt > min(debts.values()):
            yield ("node", node), f"queue {decode(node)!r} knows no debt as small as its least"


def _i11_nothing_is_left(a: Audit) -> Iterator[Found]:
    for ws in a.space.workspaces.values():
        if not ws.flows and ws.timer is None:
            yield ("workspace", ws.name), f"{decode(ws.name)!r} has a record and nothing in it"
        if len(ws.duration_estimates) > ESTIMATES_KEPT:
            text = f"{decode(ws.name)!r} keeps {len(ws.duration_estimates)} estimates"
            yield ("workspace", ws.name), text
        for flow in ws.flows:
            if flow.state == "idle" and not a.usage(ws.name) and not a.follows(ws):
                yield ("workspace", ws.name), f"{decode(ws.name)!r} is idle without a lease"
    for fence, lease in a.space.leases.items():
        name = lease.workspace
        if name not in a.space.workspaces and fence in a.space.of("slots", name):
            yield ("lease", fence), f"{decode(name)!r} has lease {fence} and no record"


def _i11_dead_letters_are_listed(a: Audit) -> Iterator[Found]:
    there = {names[0] for names, _ in a.space.all("dead_letters")}
    listed = set(a.space.one("dead_workspaces", ()))
    yield from unequal(
        "workspaces with dead letters",
        there,
        "their list",
        listed,
        stray=lambda ws: ("letter", ws, ""),
    )
    kinds = "dead_letters", "dead_letters_by_age"
    letters, by_age = ({one[:2] for one in a.entries(kind)} for kind in kinds)
    yield from unequal(
        "dead letters", letters, "their order by age", by_age, stray=lambda one: ("letter", *one)
    )
    for (name,), of in a.space.all("dead_letters"):
        for task, head in of.items() if name.startswith("!!") else ():
            if not _STEPS.fullmatch(head):
                text = f"the finished steps of task {decode(task)!r} cannot be read"
                yield ("letter", name, task), text
    unreported: set[tuple[str, ...]] = set()
    for queue, notice, _ in a.entries("unreported"):
        unreported.add(tuple(notice.split(" ")))
        if tuple(notice.split(" ")) not in letters:
            yield ("entry", "unreported", queue, notice), f"a notice of no dead letter: {notice}"
    for one in letters - unreported:
        if one[0].startswith("!") and one[0][1] != "!":  # behind "!!" are finished steps
            yield ("letter", *one), f"a cancelled job without a notice: {one}"


def _i11_schedules_are_listed(a: Audit) -> Iterator[Found]:
    rows = {f"{row.runner} {row.workspace} {row.name}": row for row in a.space.schedules}
    times = a.space.one("schedule_times", {})
    for member in rows.keys() ^ times.keys():
        row = rows.get(member)
        where = ("schedule", *row[:2]) if row else ("entry", "schedule_times", member)
        yield where, f"schedule {decode(member)!r} has {'no time' if row else 'no record'}"
    for member in rows.keys() & times.keys():
        row, at = rows[member], times[member]
        # a trigger is due at once, and one that is declared is looked at now and then
        due = row.due if (row.extra, row.boot) == ("-", "-") else 0.0
        if not due - ALMOST <= at <= max(row.due, a.now + HELD_SECONDS):
            yield ("schedule", *row[:2]), f"schedule {decode(member)!r} has a wrong time"


def _i11_provider_limits_can_be_forgotten(a: Audit) -> Iterator[Found]:
    fields = a.space.one("limits", {})
    given = {name.split(":")[2] for name in fields if name.startswith("provider:")}
    for name in given - set(a.space.one("asked", ())):
        text = f"{decode(name)!r} has limits of a provider that was not asked for it"
        yield ("field", "asked", name), text


def _i11_windows_are_the_last_two(a: Audit) -> Iterator[Found]:
    for (window,), _ in a.space.all("ended"):
        if int(window) not in {a.window, a.window - 1}:
            text = f"ids of ended jobs are left from window {window}, the last one is {a.window}"
            yield ("key", "ended", window), text


def _i9_keys_are_known(a: Audit) -> Iterator[Found]:
    yield from ((("stranger", key), f"unknown key {key}") for key in a.space.strangers)
    for names, kind in a.space.foreign.items():
        yield ("foreign", *names), f"the key {':'.join(names)} is a {kind}"
    for key in a.space.keys:
        expires = key in a.space.expiring
        if expires != (key[0] in MORTAL):
            how = "expires" if expires else "never expires"
            yield ("key", *key), f"the key {':'.join(key)} {how}"


def _i13_records_can_be_read(a: Audit) -> Iterator[Found]:
    for kind, *names in a.space.unreadable:
        text = f"the record {' '.join((kind, *map(decode, names)))} cannot be read"
        one = {"jobs": "job", "schedules": "schedule"}.get(kind)
        yield (one, *names) if one else ("record", kind, *names), text


def _i13_the_format_is_known(a: Audit) -> Iterator[Found]:
    if not a.meta_can_be_read:
        yield ("shard",), "the shard's record cannot be read"
    if a.format != FORMAT:
        where = "format" if a.format.startswith("format=") else "shard"
        yield (where,), f"the shard's record ends in {a.format!r}, not in {FORMAT!r}"


def _i13_nothing_is_set_aside(a: Audit) -> Iterator[Found]:
    for name, text in a.space.one("set_aside", {}).items():
        if not name.startswith("#"):
            since, _, _ = text.partition(" ")
            what = " ".join(map(decode, name.split(" ")))
            how = "it could not be read, or a claim failed at it"
            yield ("aside", name), f"{what} was set aside at {since}: {how}"


def _i16_workspaces_are_on_their_shard(a: Audit) -> Iterator[Found]:
    text = a.space.one("shard", {}).get("shards", "")
    mark = read_mark(text) if text else None
    if mark is None or mark.to is not None or "moves" in a.space.one("limits", {}):
        return
    kinds = ("scheduled", "dead_letters", "schedules")
    there = {names[0].lstrip("!") for kind in kinds for names, _ in a.space.all(kind)}
    there |= {ws.name for ws, flow in a.flows() if flow.lanes}
    there |= {lease.workspace for lease in a.space.leases.values()}
    moved = a.space.one("moved", {})
    for name in there:
        if _moves(a, name):
            continue
        at = int(moved.get(name) or shard_of(decode(name), mark.shards))
        if at != a.space.shard and f"+{name}" not in moved:
            yield ("stray", name), f"{decode(name)!r} has jobs here, and belongs on shard {at}"


def _moves(a: Audit, name: str) -> bool:
    """Whether a workspace is moving from or to this shard."""
    mark: str = a.space.one("moved", {}).get(name, "")
    return mark.startswith((">", "<", "|"))


MODULES = job_checks, lease_checks, node_checks, rebuild_checks, request_checks
CHECKS: list[Callable[[Audit], Iterator[Found]]] = [
    check
    for of in (globals(), *map(vars, MODULES))
    for name, check in of.items()
    if re.match(r"_i\d+_", name)
]
"""Every check of an invariant: its name begins with that of the invariant."""


def findings(a: Audit) -> list[Finding]:
    """Return everything that does not hold in this look."""
    return [
        Finding(check.__name__.split("_")[1].upper(), text, where)
        for check in CHECKS
        for where, text in _all_of(check, a)
    ]


def _all_of(check: Callable[[Audit], Iterator[Found]], a: Audit) -> Iterator[Found]:
    """Yield a check's findings; a record that it cannot read ends that check alone."""
    try:
        yield from check(a)
    except (ValueError, LookupError) as error:
        name = " ".join(check.__name__.split("_")[2:])
        yield ("unchecked", name), f"whether {name} is not known: {error} cannot be read"
