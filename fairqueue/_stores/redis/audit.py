"""Checks the raw keys against the invariants of the law; an empty list means that all hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fairqueue._keys import Keys, decode
from fairqueue._stores.redis.audit_branches import BRANCH_CHECKS
from fairqueue._stores.redis.keyspace import GateRow, Keyspace, WorkspaceRow
from fairqueue._stores.redis.looking import Audit

MORTAL = {"claimer", "ended", "groups"}  # kinds that Redis itself forgets after a while
MEANS_KEPT = 16


@dataclass(frozen=True, slots=True)
class Finding:
    """One invariant that does not hold, and where."""

    invariant: str
    text: str


def _stands_where_it_should(a: Audit) -> Iterator[str]:
    for ws, flow in a.flows():
        block = (a.blocked(ws) or a.lane_block(ws, flow)) if flow.lanes else None
        due = ws.timer is not None and ws.timer <= a.now  # its timer has not been fired yet
        wanted = {block or "ready"} if flow.lanes else {"idle", "rest", "busy"}
        if flow.state not in wanted and not (flow.lanes and (a.draining or due)):
            yield f"{decode(ws.name)!r} on {decode(flow.queue)!r} is {flow.state}, not {wanted}"
        if (flow.serial is not None) != (flow.state == "ready"):
            yield f"{decode(ws.name)!r} is {flow.state} with place {flow.serial}"


def _ready_sets_are_the_flows(a: Audit) -> Iterator[str]:
    wanted: dict[str, dict[str, float]] = {}
    for name, stand, node in a.stands():
        if stand.serial is not None:
            wanted.setdefault(node, {})[f"{stand.serial:015}:{name}"] = stand.tag
    there = {names[0]: ready for names, ready in a.space.all("ready")}
    if there != wanted:
        yield f"ready sets {there}, flows {wanted}"


def _first_are_those_below_their_reserve(a: Audit) -> Iterator[str]:
    wanted: dict[str, dict[str, float]] = {}
    for name, stand, node in a.stands():
        if stand.first:
            wanted.setdefault(node, {})[f"{stand.serial:015}:{name}"] = stand.tag
        is_below = stand.serial is not None and a.is_below(name)
        if stand.first != is_below and not a.draining:
            yield f"{decode(name)!r} in {node}: it goes first: {stand.first}, not {is_below}"
    there = {names[0]: first for names, first in a.space.all("first")}
    if there != wanted:
        yield f"those that go first {there}, flows {wanted}"


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
    for (gate,), slots in a.space.all("slots_of_gate"):
        levels.append((f"gate {gate}", len(slots), a.levels.of_gate(gate) or {}))
    for (name, task), slots in a.space.all("slots_of_share"):
        most = (a.levels.of_gate(f"/{task}") or {}).get("workspace_concurrency", len(slots))
        levels.append((f"task {task} of {decode(name)!r}", len(slots), {"concurrency": most}))
    for where, used, limits in levels:
        if used > limits.get("concurrency", used):
            yield f"{where} runs {used} of {limits['concurrency']:.0f}"


def _waiting(a: Audit) -> Iterator[tuple[str, str]]:
    """Where jobs wait, as (queue, id)."""
    for (_, place, _), lane in a.space.all("lane"):
        queue = place.partition("/")[0]
        yield from ((queue, element.partition(":")[2]) for element in lane)
    for _, members in a.space.all("scheduled"):
        yield from map(_named, members)


def _named(member: str) -> tuple[str, str]:
    queue, _, element = member.split(" ")
    return queue, element.partition(":")[2]


def _places(a: Audit) -> Iterator[tuple[str, str]]:
    """Where jobs are, as (queue, id)."""
    yield from _waiting(a)
    yield from ((lease.queue, lease.job) for lease in a.space.leases.values())


def _jobs_are_in_one_place(a: Audit) -> Iterator[str]:
    places = Counter(_places(a))
    jobs = {(names[0], job) for names, records in a.space.all("jobs") for job in records}
    for job in jobs | set(places):
        if (job in jobs) != 1 or places[job] != 1:
            kept = "a record" if job in jobs else "no record"
            yield f"job {job} has {kept} and is in {places[job]} places"


def _lanes_are_named_by_their_flow(a: Audit) -> Iterator[str]:
    there = {names for names, _ in a.space.all("lane")}
    wanted = {(ws.name, flow.place, p) for ws, flow in a.flows() for p in flow.lanes}
    if there != wanted:
        yield f"lanes {there}, flows name {wanted}"
    for ws, flow in a.flows():
        if list(flow.lanes) != sorted(flow.lanes, key=int):
            yield f"lanes of {decode(ws.name)!r} are out of order: {flow.lanes}"


def _leases_are_at_every_level(a: Audit) -> Iterator[str]:
    fences = set(a.space.leases)
    by_workspace: dict[str, set[str]] = {}
    by_queue: dict[str, set[str]] = {}
    for fence, lease in a.space.leases.items():
        by_workspace.setdefault(lease.workspace, set()).add(fence)
        by_queue.setdefault(lease.queue, set()).add(fence)
    if set(a.space.one("expiry", {})) != fences:
        yield f"leases {fences}, expiry {a.space.one('expiry', {})}"
    for kind, wanted in (("slots_of_workspace", by_workspace), ("slots_of_queue", by_queue)):
        there = {names[0]: slots for names, slots in a.space.all(kind)}
        if there != wanted:
            yield f"{kind} {there}, leases {wanted}"
    if any(int(fence) > a.last_fence for fence in fences):
        yield f"a fence above the last one, {a.last_fence}: {fences}"


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
            yield f"queue {decode(queue)!r} is runnable and nobody is woken"


def _one_token_each(a: Audit) -> Iterator[str]:
    for (queue,), tokens in a.space.all("token"):
        if len(tokens) > 1:
            yield f"queue {decode(queue)!r} has {len(tokens)} tokens"


def _timers_are_what_workspaces_wait_for(a: Audit) -> Iterator[str]:
    rows: dict[str, WorkspaceRow | GateRow] = {**a.space.workspaces, **a.space.gates}
    wanted = {name: row.timer for name, row in rows.items() if row.timer is not None}
    if a.space.one("timer", {}) != wanted:
        yield f"timer {a.space.one('timer', {})}, workspaces {wanted}"
    firsts = {names[0]: min(members.values()) for names, members in a.space.all("scheduled")}
    scheduled = {ws.name: ws.scheduled for ws in a.space.workspaces.values() if ws.scheduled}
    if firsts != scheduled:
        yield f"scheduled {firsts}, workspaces {scheduled}"
    for name, at in firsts.items():
        if wanted.get(name, at + 1) > at:
            yield f"{decode(name)!r} has a job due at {at} and no timer for it"


def _what_expires_waits_and_has_a_timer(a: Audit) -> Iterator[str]:
    waiting = set(_waiting(a))
    for (name,), members in a.space.all("expiring"):
        if not waiting.issuperset(map(_named, members)):
            yield f"{decode(name)!r}: {members} expire, and not all of them wait"
    firsts = {names[0]: min(members.values()) for names, members in a.space.all("expiring")}
    rows = {ws.name: ws for ws in a.space.workspaces.values() if ws.expiring is not None}
    if firsts != {name: ws.expiring for name, ws in rows.items()}:
        yield f"expiring {firsts}, workspaces {rows}"
    for name, at in firsts.items():
        timer = rows[name].timer if name in rows else None
        if timer is None or timer > at:
            yield f"{decode(name)!r} has a job that expires at {at} and no timer for it"


def _waiting_for_a_rate_has_a_timer(a: Audit) -> Iterator[str]:
    for ws, flow in a.flows():
        if flow.state == "rate" and ws.timer is None:
            yield f"{decode(ws.name)!r} waits for its rate and no timer is set"


def _finishes_belong_to_flows(a: Audit) -> Iterator[str]:
    flows = {(node, name): stand.state for name, stand, node in a.stands()}
    finishes = {(q, name) for (q,), members in a.space.all("finish") for name in members}
    resting = {(q, name) for (q,), members in a.space.all("resting") for name in members}
    if not finishes <= set(flows):
        yield f"F of nobody: {finishes - set(flows)}"
    if resting != {at for at, state in flows.items() if state == "rest"}:
        yield f"resting {resting}, flows {flows}"


def _nothing_is_left(a: Audit) -> Iterator[str]:
    for ws in a.space.workspaces.values():
        if not ws.flows and ws.timer is None:
            yield f"{decode(ws.name)!r} has a record and nothing in it"
        if len(ws.means) > MEANS_KEPT:
            yield f"{decode(ws.name)!r} keeps {len(ws.means)} averages"
        for flow in ws.flows:
            if flow.state == "idle" and not a.usage(ws.name):
                yield f"{decode(ws.name)!r} is idle without a lease"
    stray = {names[0] for names, _ in a.space.all("slots_of_workspace")} - set(a.space.workspaces)
    if stray:
        yield f"leases of workspaces without a record: {stray}"


def _dead_letters_are_listed(a: Audit) -> Iterator[str]:
    there = {names[0] for names, _ in a.space.all("dead")}
    if there != set(a.space.one("dead_workspaces", ())):
        yield f"dead letters of {there}, listed {a.space.one('dead_workspaces', ())}"
    letters = {(names[0], job) for names, of in a.space.all("dead") for job in of}
    graves = {(names[0], job) for names, of in a.space.all("graves") for job in of}
    if letters != graves:
        yield f"dead letters {letters}, by age {graves}"
    untold = {tuple(each.split(" ")) for _, of in a.space.all("untold") for each in of}
    if not untold <= letters:
        yield f"notices of no dead letter: {untold - letters}"


def _given_limits_can_be_forgotten(a: Audit) -> Iterator[str]:
    given = {name.split(":")[2] for name in a.space.one("limits", {}) if name[:6] == "given:"}
    if not given <= set(a.space.one("asked", ())):
        yield f"limits were given to {given}, asked for {a.space.one('asked', ())}"


def _keys_are_known(a: Audit) -> Iterator[str]:
    yield from (f"unknown key {key}" for key in a.space.strangers)
    if not a.space.mortal <= MORTAL:
        yield f"these expire: {a.space.mortal - MORTAL}"
    if a.space.immortal & MORTAL:
        yield f"these never expire: {a.space.immortal & MORTAL}"


CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[str]]], ...] = (
    ("I1", _stands_where_it_should),
    ("I1", _ready_sets_are_the_flows),
    ("I1", _first_are_those_below_their_reserve),
    ("I2", _limits_hold),
    ("I3", _jobs_are_in_one_place),
    ("I3", _lanes_are_named_by_their_flow),
    ("I3", _timers_are_what_workspaces_wait_for),
    ("I3", _what_expires_waits_and_has_a_timer),
    ("I3", _waiting_for_a_rate_has_a_timer),
    ("I4", _leases_are_at_every_level),
    ("I6", _depths_are_sums),
    ("I7", _runnable_work_has_a_token),
    ("I7", _one_token_each),
    ("I9", _keys_are_known),
    ("I11", _finishes_belong_to_flows),
    ("I11", _nothing_is_left),
    ("I11", _given_limits_can_be_forgotten),
    ("I11", _dead_letters_are_listed),
    *BRANCH_CHECKS,
)


def audit(client: Any, keys: Keys, *, now: float | None = None) -> list[Finding]:
    """Look at every key once and tell what does not hold.

    Where others are at work a finding counts only if it is found again: the look is not atomic.
    Two may stand for a while: I2 after a limit was lowered, until it has drained, and I7 from a
    wake-up to the claim of who was woken.
    """
    if now is None:
        seconds, micros = client.time()
        now = seconds + micros / 1e6
    return findings(Audit(Keyspace(client, keys), now))


def findings(a: Audit) -> list[Finding]:
    """Everything that does not hold in this look."""
    return [Finding(invariant, text) for invariant, check in CHECKS for text in check(a)]
