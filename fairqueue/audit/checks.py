"""Checks the raw keys against the invariants; an empty list means that all hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fairqueue._keys import decode
from fairqueue._stores.engine import Engine
from fairqueue.audit.cleanup_checks import CLEANUP_CHECKS
from fairqueue.audit.keyspace import Keyspace, SharedLimitRow, WorkspaceRow
from fairqueue.audit.node_checks import NODE_CHECKS
from fairqueue.audit.view import ALMOST, FORMAT, Audit, unequal

MORTAL = {"claimer", "imports_suspended"}  # kinds that expire by themselves
ESTIMATES_KEPT = 16
MICROSECONDS = 1_000_000  # in a second


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant that does not hold, and where."""

    invariant: str
    text: str


def _stands_where_it_should(a: Audit) -> Iterator[str]:
    for ws, flow in a.flows():
        block = (a.blocked(ws) or a.task_block(ws, flow)) if flow.lanes else None
        due = ws.timer is not None and ws.timer <= a.now  # its timer has not been fired yet
        wanted = {block or "ready"} if flow.lanes else {"idle", "idle_with_debt", "busy"}
        if flow.lanes and ws.timer is not None:  # by which a flow that was put off comes back
            wanted.add("failed")
        if flow.state not in wanted and not (flow.lanes and (a.draining or due)):
            yield f"{decode(ws.name)!r} on {decode(flow.queue)!r} is {flow.state}, not {wanted}"
        if (flow.arrival is not None) != (flow.state == "ready"):
            yield f"{decode(ws.name)!r} is {flow.state} with arrival {flow.arrival}"


def _ready_sets_are_the_flows(a: Audit) -> Iterator[str]:
    wanted = {
        (node, f"{stand.arrival:015}:{name}", stand.tag)
        for name, stand, node in a.stands()
        if stand.arrival is not None
    }
    yield from unequal("ready sets", a.scored("ready"), "flows", wanted)


def _reserved_are_those_below_their_reserve(a: Audit) -> Iterator[str]:
    wanted: set[tuple[str, str, float]] = set()
    for name, stand, node in a.stands():
        if stand.reserved:
            wanted.add((node, f"{stand.arrival:015}:{name}", stand.tag))
        is_below = stand.arrival is not None and a.is_below(name)
        if stand.reserved != is_below and not a.draining:
            yield f"{decode(name)!r} in {node}: reserved: {stand.reserved}, not {is_below}"
    yield from unequal("reserved sets", a.scored("reserved"), "flows", wanted)


def _limits_hold(a: Audit) -> Iterator[str]:
    if a.levels.observed:
        return
    levels: list[tuple[str, int, dict[str, float]]] = [
        ("total", len(a.space.leases), a.levels.of_total())
    ]
    for (name,), slots in a.space.all("slots_of_workspace"):
        levels.append((f"workspace {decode(name)!r}", len(slots), a.levels.of_workspace(name)))
    for (name,), slots in a.space.all("slots_of_queue"):
        levels.append((f"queue {decode(name)!r}", len(slots), a.levels.of_queue(name)))
    for (key,), slots in a.space.all("slots_of_shared_limit"):
        levels.append((f"shared limit {key}", len(slots), a.levels.of_shared(key) or {}))
    for (name, task), slots in a.space.all("slots_of_workspace_task"):
        most = (a.levels.of_shared(f"/{task}") or {}).get("workspace_concurrency", len(slots))
        levels.append((f"task {task} of {decode(name)!r}", len(slots), {"concurrency": most}))
    for where, used, limits in levels:
        if used > limits.get("concurrency", used):
            yield f"{where} runs {used} of {limits['concurrency']:.0f}"


def _waiting(a: Audit) -> Iterator[tuple[str, str]]:
    """Give the jobs that wait, as (queue, id)."""
    for names, lane in a.space.all("lane"):
        queue = names[1].partition("/")[0]
        holes = Counter({e: int(n) for e, n in a.space.of("holes", *names, otherwise={}).items()})
        for element in lane:
            if not holes[element]:
                yield queue, element.partition(":")[2]
            else:
                holes[element] -= 1
    for names, members in a.space.all("returned"):
        for element in members:
            yield names[1].partition("/")[0], element.partition(":")[2]
    for _, members in a.space.all("scheduled"):
        yield from map(_named, members)


def _named(member: str) -> tuple[str, str]:
    queue, _, element = member.split(" ")
    return queue, element.partition(":")[2]


def _places(a: Audit) -> Iterator[tuple[str, str]]:
    """Give every place of a job, as (queue, id)."""
    yield from _waiting(a)
    yield from ((lease.queue, lease.job) for lease in a.space.leases.values())


def _jobs_are_in_one_place(a: Audit) -> Iterator[str]:
    places = Counter(_places(a))
    jobs = {(names[0], job) for names, records in a.space.all("jobs") for job in records}
    for job in jobs | set(places):
        if (job in jobs) != 1 or places[job] != 1:
            kept = "a record" if job in jobs else "no record"
            yield f"job {job} has {kept} and is in {places[job]} places"


def _tasks_have_names(a: Audit) -> Iterator[str]:
    tasks = dict(a.space.one("tasks", {}))
    last = int(tasks.pop("#", 0))
    tasks.pop("#plain", None)
    names = {number[1:]: name for number, name in tasks.items() if number.startswith("#")}
    used = {lease.task for lease in a.space.leases.values()}
    records = (record.split(" ") for _, of in a.space.all("jobs") for record in of.values())
    used |= {words[1] for words in records if words[1:]}
    limits = (field.split(":") for field in a.space.one("limits", {}))
    used |= {words[2] for words in limits if words[1:2] == ["task"]}
    yield from (f"task {number} has no name" for number in used - set(names))
    numbers = {
        number.split(" ")[0]: name.removeprefix("!")
        for name, number in tasks.items()
        if not name.startswith("#")
    }
    yield from unequal("tasks", set(numbers.items()), "their numbers", set(names.items()))
    newest = max(map(int, names), default=0)
    if newest > last:
        yield f"task {newest} is above the last one, {last}"


def _lanes_are_named_by_their_flow(a: Audit) -> Iterator[str]:
    there = {names for kind in ("lane", "returned") for names, _ in a.space.all(kind)}
    wanted = {(ws.name, flow.lane_key, p) for ws, flow in a.flows() for p in flow.lanes}
    yield from unequal("lanes", there, "flows", wanted)
    for ws, flow in a.flows():
        if list(flow.lanes) != sorted(flow.lanes, key=int):
            yield f"lanes of {decode(ws.name)!r} are out of order: {flow.lanes}"


def _returned_jobs_are_in_order(a: Audit) -> Iterator[str]:
    there = {names for names, _ in a.space.all("returned")}
    wanted = {(ws.name, flow.lane_key, p) for ws, flow in a.flows() for p in flow.returned}
    yield from unequal("returned", there, "flows", wanted)
    for names, members in a.space.all("returned"):
        records = a.space.of("jobs", names[1].partition("/")[0], otherwise={})
        for element, fence in members.items():
            job = element.partition(":")[2]
            history = " ".join(records.get(job, "").split(" ")[4:5])
            first = history.partition(",")[0].partition("/")[2]
            if int(first or 0) != fence:
                yield f"job {job} came back by fence {fence:.0f}, its first was {first or None}"


def _holes_are_counted(a: Audit) -> Iterator[str]:
    there = {names: {e: int(n) for e, n in holes.items()} for names, holes in a.space.all("holes")}
    counted = {
        (ws.name, flow.lane_key, p, n) for ws, flow in a.flows() for p, n in flow.holes.items()
    }
    found = {(*names, sum(holes.values())) for names, holes in there.items()}
    yield from unequal("holes", found, "flows", counted)
    for names, holes in there.items():
        lane = Counter(a.space.of("lane", *names))
        if Counter(holes) - lane or not lane - Counter(holes):
            yield f"lane {names} has holes without an element, or nothing else"


def _leases_are_at_every_level(a: Audit) -> Iterator[str]:
    leases = a.space.leases
    yield from unequal("expiry", set(a.space.one("expiry", {})), "leases", set(leases))
    by_workspace = {(lease.workspace, fence) for fence, lease in leases.items()}
    yield from unequal(
        "slots_of_workspace", a.members("slots_of_workspace"), "leases", by_workspace
    )
    by_queue = {(lease.queue, lease.job, fence) for fence, lease in leases.items()}
    running = {
        (names[0], *pair) for names, of in a.space.all("slots_of_queue") for pair in of.items()
    }
    yield from unequal("slots_of_queue", running, "leases", by_queue)
    for fence, lease in leases.items():
        if not lease.claimed * MICROSECONDS < int(fence) <= a.last_fence:
            yield f"fence {fence} of {lease.claimed:f} is out of order: {a.last_fence} is the last"
        ends = a.space.one("expiry", {}).get(fence, a.now)
        if ends > a.now + lease.length + ALMOST:
            yield f"the lease of fence {fence} ends at {ends:f}, and is {lease.length} s long"
        if lease.ended is not None and lease.ended >= ends:
            yield f"the lease of fence {fence} ended at {lease.ended:f}, and was not spared"


def _last_dispatches_have_the_highest_fences(a: Audit) -> Iterator[str]:
    for queue, node in a.space.nodes.items():
        if node.last_fence > a.last_fence:
            yield f"{decode(queue)!r} was served with fence {node.last_fence}, above the last one"
    for fence, lease in a.space.leases.items():
        if lease.queue in a.space.nodes and int(fence) > a.space.nodes[lease.queue].last_fence:
            yield f"fence {fence} is above that of the last dispatch of {decode(lease.queue)!r}"


def _time_does_not_go_back(a: Audit) -> Iterator[str]:
    if a.offset < 0:
        yield f"the clock is set back by {-a.offset} s"
    for fence, lease in a.space.leases.items():
        if lease.claimed > a.beat:
            yield f"fence {fence} was issued at {lease.claimed}, after the last beat, {a.beat}"


def _depths_are_sums(a: Audit) -> Iterator[str]:
    sums = Counter(queue for queue, _ in _places(a))
    sums.subtract(lease.queue for lease in a.space.leases.values())
    for queue in {*a.space.nodes, *sums}:
        records = len(a.space.of("jobs", queue))
        depth = records - len(a.space.of("slots_of_queue", queue))
        if depth != sums[queue] or queue not in a.space.nodes:
            yield f"depth of {decode(queue)!r} is {depth}, its lanes hold {sums[queue]}"


def _runnable_work_has_a_token(a: Audit) -> Iterator[str]:
    for (queue,), _ in a.space.all("ready"):
        if queue in a.space.nodes and a.is_open(queue) and not a.space.of("token", queue):
            yield f"queue {decode(queue)!r} is runnable and has no token"


def _one_token_each(a: Audit) -> Iterator[str]:
    for (queue,), tokens in a.space.all("token"):
        if len(tokens) > 1:
            yield f"queue {decode(queue)!r} has {len(tokens)} tokens"


def _timers_are_those_of_the_records(a: Audit) -> Iterator[str]:
    rows: dict[str, WorkspaceRow | SharedLimitRow] = {**a.space.workspaces, **a.space.shared_limits}
    wanted = {name: row.timer for name, row in rows.items() if row.timer is not None}
    yield from unequal(
        "timer", set(a.space.one("timer", {}).items()), "records", set(wanted.items())
    )
    firsts = {names[0]: min(members.values()) for names, members in a.space.all("scheduled")}
    scheduled = {(ws.name, ws.scheduled) for ws in a.space.workspaces.values() if ws.scheduled}
    yield from unequal("schedules", set(firsts.items()), "workspaces", scheduled)
    for name, at in firsts.items():
        if not _goes_off_for(a, wanted.get(name), at):
            yield f"{decode(name)!r} has a job due at {at} and no timer for it"


def _goes_off_for(a: Audit, timer: float | None, at: float) -> bool:
    """Whether a timer is there in time. One that is overdue may stand behind other due ones."""
    return timer is not None and timer <= max(at, a.now)


def _what_expires_waits_and_has_a_timer(a: Audit) -> Iterator[str]:
    waiting = set(_waiting(a))
    for (name,), members in a.space.all("expiring"):
        for queue, job in set(map(_named, members)) - waiting:
            yield f"job {job} of {decode(name)!r} on {decode(queue)!r} expires and does not wait"
    firsts = {names[0]: min(members.values()) for names, members in a.space.all("expiring")}
    rows = {ws.name: ws for ws in a.space.workspaces.values() if ws.expiring is not None}
    expiring = {(name, ws.expiring) for name, ws in rows.items()}
    yield from unequal("expiries", set(firsts.items()), "workspaces", expiring)
    for name, at in firsts.items():
        if not _goes_off_for(a, rows[name].timer if name in rows else None, at):
            yield f"{decode(name)!r} has a job that expires at {at} and no timer for it"


def _waiting_for_a_rate_has_a_timer(a: Audit) -> Iterator[str]:
    for ws, flow in a.flows():
        if flow.state == "rate" and ws.timer is None:
            yield f"{decode(ws.name)!r} waits for its rate and no timer is set"


def _finishes_belong_to_flows(a: Audit) -> Iterator[str]:
    flows = {(node, name): stand.state for name, stand, node in a.stands()}
    finishes = {(q, name) for (q,), members in a.space.all("finish") for name in members}
    indebted = {(q, name) for (q,), members in a.space.all("indebted") for name in members}
    for node, name in finishes - set(flows):
        yield f"a finish tag in {node} without a flow: {decode(name)!r}"
    for node, name in indebted - finishes:
        yield f"{decode(name)!r} is in debt in {node} and has no finish tag"
    in_debt = {at for at, state in flows.items() if state == "idle_with_debt"}
    yield from unequal("indebted", indebted, "flows", in_debt)


def _nothing_is_left(a: Audit) -> Iterator[str]:
    for ws in a.space.workspaces.values():
        if not ws.flows and ws.timer is None:
            yield f"{decode(ws.name)!r} has a record and nothing in it"
        if len(ws.duration_estimates) > ESTIMATES_KEPT:
            yield f"{decode(ws.name)!r} keeps {len(ws.duration_estimates)} estimates"
        for flow in ws.flows:
            if flow.state == "idle" and not a.usage(ws.name):
                yield f"{decode(ws.name)!r} is idle without a lease"
    stray = {names[0] for names, _ in a.space.all("slots_of_workspace")} - set(a.space.workspaces)
    yield from (f"{decode(name)!r} has leases and no record" for name in stray)


def _dead_letters_are_listed(a: Audit) -> Iterator[str]:
    there = {names[0] for names, _ in a.space.all("dead_letters")}
    listed = set(a.space.one("dead_workspaces", ()))
    yield from unequal("workspaces with dead letters", there, "their list", listed)
    letters = {(names[0], job) for names, of in a.space.all("dead_letters") for job in of}
    by_age = {(names[0], job) for names, of in a.space.all("dead_letters_by_age") for job in of}
    yield from unequal("dead letters", letters, "their order by age", by_age)
    unreported = {tuple(each.split(" ")) for _, of in a.space.all("unreported") for each in of}
    yield from (f"a notice of no dead letter: {each}" for each in unreported - letters)
    cancelled = {letter for letter in letters if letter[0].startswith("!")}
    yield from (f"a cancelled job without a notice: {each}" for each in cancelled - unreported)


def _provider_limits_can_be_forgotten(a: Audit) -> Iterator[str]:
    fields = a.space.one("limits", {})
    given = {name.split(":")[2] for name in fields if name.startswith("provider:")}
    for name in given - set(a.space.one("asked", ())):
        yield f"{decode(name)!r} has limits of a provider that was not asked for it"


def _windows_are_the_last_two(a: Audit) -> Iterator[str]:
    meta = a.space.one("meta", "").split()
    ended, _, groups = meta[7].partition("/") if meta else ("0", "", "")
    for kind, last in (("ended", int(ended)), ("groups", int(groups or 0))):
        for (window,), _ in a.space.all(kind):
            if int(window) not in {last, last - 1}:
                yield f"a set of {kind} is left from window {window}, the last one is {last}"


def _keys_are_known(a: Audit) -> Iterator[str]:
    yield from (f"unknown key {key}" for key in a.space.strangers)
    if not a.space.mortal <= MORTAL:
        yield f"these expire: {a.space.mortal - MORTAL}"
    if a.space.immortal & MORTAL:
        yield f"these never expire: {a.space.immortal & MORTAL}"


def _short_publishes_need_no_check(a: Audit) -> Iterator[str]:
    fields = a.space.one("limits", {})
    if "#plain" in a.space.one("tasks", {}):
        for mark in {"capacity", "tasks"} & set(fields):
            yield f"publishes take the short way, although a limit sets {mark!r}"
        if a.offset != 0:
            yield f"publishes take the short way, although Redis's clock is {a.offset} s behind"


def _records_can_be_read(a: Audit) -> Iterator[str]:
    for name in a.space.unreadable:
        yield f"the record {' '.join(map(decode, name.split(' ')))} cannot be read"


def _the_format_is_known(a: Audit) -> Iterator[str]:
    if a.format != FORMAT:
        yield f"the shard's record ends in {a.format!r}, not in {FORMAT!r}"


def _nothing_is_set_aside(a: Audit) -> Iterator[str]:
    for name, text in a.space.one("set_aside", {}).items():
        if not name.startswith("#"):
            since, _, _ = text.partition(" ")
            what = " ".join(map(decode, name.split(" ")))
            yield f"{what} was set aside at {since}: it could not be read, or a claim failed at it"


CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[str]]], ...] = (
    ("I1", _stands_where_it_should),
    ("I1", _ready_sets_are_the_flows),
    ("I1", _reserved_are_those_below_their_reserve),
    ("I2", _limits_hold),
    ("I3", _jobs_are_in_one_place),
    ("I3", _tasks_have_names),
    ("I3", _lanes_are_named_by_their_flow),
    ("I3", _returned_jobs_are_in_order),
    ("I3", _holes_are_counted),
    ("I3", _timers_are_those_of_the_records),
    ("I3", _what_expires_waits_and_has_a_timer),
    ("I3", _waiting_for_a_rate_has_a_timer),
    ("I4", _leases_are_at_every_level),
    ("I4", _last_dispatches_have_the_highest_fences),
    ("I6", _depths_are_sums),
    ("I7", _runnable_work_has_a_token),
    ("I7", _one_token_each),
    ("I9", _keys_are_known),
    ("I11", _windows_are_the_last_two),
    ("I11", _finishes_belong_to_flows),
    ("I11", _nothing_is_left),
    ("I11", _provider_limits_can_be_forgotten),
    ("I11", _dead_letters_are_listed),
    ("I12", _time_does_not_go_back),
    ("I13", _records_can_be_read),
    ("I13", _nothing_is_set_aside),
    ("I13", _the_format_is_known),
    ("I14", _short_publishes_need_no_check),
    *NODE_CHECKS,
    *CLEANUP_CHECKS,
)


def audit(engine: Engine, *, now: float | None = None) -> list[Finding]:
    """Read every key once and return what does not hold.

    While others use the namespace, a finding counts only if it is found again: the keys are not
    read in one atomic step. Two may stand for a while: I2 after a limit was lowered, until it has
    drained, and I7 from a wake-up to the claim of the worker that was woken.
    """
    space = Keyspace(engine)
    if now is None:
        seconds, micros = map(int, engine.command("TIME"))  # nothing that was read is later
        now = seconds + micros / 1e6
    return findings(Audit(space, now))


def findings(a: Audit) -> list[Finding]:
    """Return everything that does not hold in this look."""
    return [Finding(invariant, text) for invariant, check in CHECKS for text in check(a)]
