"""Checks the raw keys against the invariants; an empty list means that all hold.

The keys are not read in one atomic step, so one look may see a change half done: a job may move
while its lane is read. A finding is certain if each of several looks makes it in the same words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fairqueue._keys import KINDS, decode
from fairqueue._shards.placement import shard_of
from fairqueue._stores import fairness as fair
from fairqueue._stores.engine import Engine
from fairqueue._stores.layout import read_mark
from fairqueue.audit import place_checks
from fairqueue.audit.keyspace import Keyspace
from fairqueue.audit.limits import lists_of, settings_of
from fairqueue.audit.view import ALMOST, ENTRY, FORMAT, Audit, Found, Where, entity, unequal

LOOKS = 5
"""One repetition may be chance: what comes and goes all the time may be met twice."""
MORTAL = {kind for kind, of in KINDS.items() if of.goes == "expires"}
ESTIMATES_KEPT = 16
HELD_SECONDS = 20.0  # a schedule that is due, while a worker publishes it, at most
_STEPS = re.compile(r"[\d.]+ \S+ steps \d+ \S+")
REST_SECONDS = 600
TASK_BYTES = 16  # of a task's record: see lua/state/tasks.lua
_PROGRESS = re.compile(r"[1-9]\d* \S+")
FORMS = {
    "counts ": re.compile(r"(\S+=\d+ )+[\d.]+"),
    "progress ": re.compile(r"\d\S* \S+ \S+ [\d.]+|\[.*"),
    "shard across:": re.compile(r"\S+ \S+ [01]"),
}
"""How a field's text looks, by the kind and how its name begins: the rebuild removes others."""
MEMBERS = {"task_rates": re.compile(r"[^:]+:[^:]+"), "scheduled": ENTRY}
"""How a member looks, by its kind."""


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
    findings: tuple[Finding, ...] = ()
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


def _i1_inner_nodes_stand_where_they_should(a: Audit) -> Iterator[Found]:
    """An inner node is ready exactly while a member is runnable and its shared limit is open."""
    for b in a.space.inner_nodes.values():
        runnable, closed = bool(a.space.of("ready", b.id)), a.closed(b.limit_key)
        resting = {"at_task_limit"} if b.held else {"idle", "busy", "idle_with_debt"}
        wanted = {closed or "ready"} if runnable else resting
        if b.state not in wanted and not a.draining and not a.is_due(b.limit_key):
            yield ("node", b.id), f"inner node {b.id} is {b.state}, not {wanted}"


def _i10_closed_shared_limits_are_full_or_wait(a: Audit) -> Iterator[Found]:
    for name, shared in a.space.shared_limits.items():
        where = "shared_limit", name
        closed = a.closed(name) if a.space.of("nodes_of_shared_limit", name) else None
        if shared.block != closed and not a.draining and not a.is_due(name):
            yield where, f"shared limit {name} is {shared.block}, not {closed}"
        if shared.block == "rate" and shared.timer is None:
            yield where, f"shared limit {name} waits for its rate and no timer is set"
        if shared.walks and not a.is_due(name):
            yield where, f"shared limit {name} has nodes that must follow, and its timer is not due"


def _i5_inner_nodes_weigh_as_much_as_their_members(a: Audit) -> Iterator[Found]:
    counts = a.counts_of_inner_nodes
    for b in a.space.inner_nodes.values():
        members, total, held = counts.get(b.id, (0, 0, 0))
        if (b.members, b.total) != (members, total):
            there = f"{members} that weigh {total}"
            text = f"inner node {b.id} counts {b.members} that weigh {b.total}, there are {there}"
            yield ("node", b.id), text
        if b.held != held:
            text = f"inner node {b.id} counts {b.held} that are held back, there are {held}"
            yield ("node", b.id), text
        if not b.group and b.total and abs(fair.weight_of(b.total) - b.weight) > ALMOST:
            text = f"inner node {b.id} weighs {b.weight}, its members {b.total}"
            yield ("node", b.id), text


def _i3_inner_nodes_are_listed(a: Audit) -> Iterator[Found]:
    wanted = {(b.limit_key, b.id) for b in a.space.inner_nodes.values()}
    lists = "nodes_of_shared_limit"
    yield from a.differs(lists, "inner nodes", wanted, lambda one: ("node", one[1]))
    known = {*a.space.inner_nodes, *a.space.nodes}
    for name, _, node in a.stands():
        if node not in known:
            yield entity(name), f"{decode(name)!r} stands in {node}, which does not exist"


def _i3_groups_are_what_is_set(a: Audit) -> Iterator[Found]:
    for ws in a.space.workspaces.values():
        if ws.moves:
            if ws.timer is None or ws.timer > a.now:
                text = f"{decode(ws.name)!r} moves between groups, and its timer is not due"
                yield ("workspace", ws.name), text
        elif ws.parent != a.levels.parent_of(ws.name) and not a.draining:
            text = f"{decode(ws.name)!r} is in group {ws.parent}, not {a.levels.parent_of(ws.name)}"
            yield ("workspace", ws.name), text


def _i11_nothing_is_left_of_an_inner_node(a: Audit) -> Iterator[Found]:
    for b in a.space.inner_nodes.values():
        if b.state == "idle" and not b.members:
            yield ("node", b.id), f"inner node {b.id} is idle and empty"


def _i11_entries_can_be_read(a: Audit) -> Iterator[Found]:
    for kind, form in MEMBERS.items():
        for *names, member, _ in a.entries(kind):
            if not form.fullmatch(member):
                yield ("entry", kind, *names, member), f"what {kind} has cannot be read: {member}"
    for of, form in FORMS.items():
        kind, _, before = of.partition(" ")
        for name, text in a.space.one(kind, {}).items():
            if name.startswith(before) and not form.fullmatch(text):
                found = f"{kind} of {decode(name)!r} cannot be read: {text[:80]!r}"
                yield ("field", kind, name), found
    for field, record in a.space.shard_fields.items():
        if field.startswith(b"task:") and len(record) != TASK_BYTES:
            name = field.decode()
            yield ("field", "shard", name), f"the record of {decode(name)!r} cannot be read"


def _i11_unused_queues_hold_nothing(a: Audit) -> Iterator[Found]:
    for queue, node in a.space.nodes.items():
        if node.unused and any(a.space.of(kind, queue) for kind in ("jobs", "indebted", "ready")):
            text = f"queue {decode(queue)!r} is marked as unused and is not empty"
            yield ("node", queue), text


def _i11_queues_are_listed(a: Audit) -> Iterator[Found]:
    listed = a.space.one("shard", {}).get("queues")
    if listed is not None and set(listed.split()) != set(a.space.nodes):
        yield ("field", "shard", "queues"), f"the queues are not {listed!r}"


def _i11_the_rebuild_goes_on(a: Audit) -> Iterator[Found]:
    text = a.space.one("shard", {}).get("rebuild", "1 0")
    if a.rebuild_at > a.now + REST_SECONDS:
        yield ("shard",), f"the rebuild does not go on before {a.rebuild_at}"
    if not _PROGRESS.fullmatch(text):
        yield ("field", "shard", "rebuild"), f"the rebuild does not go on: {text!r}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _i11_limits_are_listed(a: Audit) -> Iterator[Found]:
    fields: dict[str, str] = a.space.one("limits", {})
    lists = {what: set(found) for (what,), found in a.space.all("limits_with")}
    listed = {(what, field) for what, found in lists.items() for field in found}
    due = {(what, field) for field in fields for what in lists_of(field, fields[field])}
    for field in sorted({field for _, field in listed ^ due}):
        yield ("field", "limits", field), f"the limits {field!r} are not listed as they should be"
    settings = a.space.one("shard", {}).get("settings")
    if a.space.one("indexed_tasks", {}):
        lists["indexed"] = set()
    if settings is not None and _json(settings) != settings_of(fields, lists, a.mark):
        yield ("field", "limits", "settings"), f"the limits of all are not {settings!r}"


CHECKS: list[Callable[[Audit], Iterator[Found]]] = [
    check
    for of in (globals(), vars(place_checks))
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


def take_look(engine: Engine, now: float | None = None) -> Audit:
    """Read every key once; ``now`` overrides the engine's clock, in tests."""
    space = Keyspace(engine)
    if now is None:
        seconds, micros = map(int, engine.command("TIME"))  # nothing that was read is later
        now = seconds + micros / 1e6
    return Audit(space, now)


def audit(engine: Engine, *, now: float | None = None) -> list[Finding]:
    """Look once and return what does not hold; on a live store see :func:`certain_findings`.

    Two findings may be temporary: I2 until a lowered limit has drained, and I7 from a wake-up to
    the claim of the woken worker.
    """
    return findings(take_look(engine, now))


def certain_findings(engine: Engine, *, now: float | None = None) -> tuple[Audit, list[Finding]]:
    """Look until each finding is certain or gone; return the last look and what is certain."""
    look = take_look(engine, now)
    left = findings(look)
    for _ in range(LOOKS - 1):
        if not left:
            break
        look = take_look(engine, now)
        again = set(findings(look))
        left = [finding for finding in left if finding in again]
    return look, left
