"""Checks the charges: while runnable, a finish tag grows by worker-seconds over weight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isclose

from fairqueue.audit.keyspace import FlowRow, LeaseRow, WorkspaceRow
from fairqueue.audit.view import Audit

FLOOR = 1000  # the least that a job costs, in microseconds as all costs and tags
MICROSECONDS = 1e6
ROUNDED = 20.0  # what rounding may add up to within a step

Place = tuple[str, str]
"""A workspace and its node."""


@dataclass(frozen=True)
class Standing:
    """The base of a ready flow's tag, less the charges of its live leases.

    The base is the finish tag, once a job has started since the flow became runnable.
    """

    balance: float
    weight: float
    since: float
    """The time when the flow became ready, which changes if it was idle in between."""


@dataclass
class Accounts:
    """The state before the step that is checked."""

    standings: dict[Place, Standing] = field(default_factory=dict)
    leases: dict[str, tuple[Place, LeaseRow, float]] = field(default_factory=dict)
    """The place, record and end of each lease."""
    v: dict[str, float] = field(default_factory=dict)
    """Virtual times of the queues; that of an inner node is forgotten with it."""
    beat: float = 0.0
    arrival: int = 0
    debts: dict[str, set[tuple[str, float]]] = field(default_factory=lambda: defaultdict(set))
    """Names and finish tags of what is idle with debt, by node."""
    used: dict[str, float] = field(default_factory=dict)
    """What was reported in this step, by fence."""

    def reports(self, a: Audit, fence: int, seconds: float, *, is_charged: bool) -> None:
        """Note the report of a job's end; one that did not start is not charged."""
        lease = a.space.leases.get(str(fence))
        if lease is None:
            return
        used = MICROSECONDS * max(0.0, min(seconds, a.now - lease.claimed))
        self.used[str(fence)] = max(used, FLOOR) if is_charged else 0.0

    def judge(self, a: Audit) -> None:
        """Compare the state with the one before, and keep it."""
        for queue, v in self.v.items():
            has_fallen = a.space.nodes[queue].virtual_time < v
            assert not has_fallen or self._was_empty(a, queue), f"the virtual time of {queue} fell"
        assert a.beat >= self.beat, "time went back"
        now = dict(_standings(a))
        for place in now.keys() & self.standings.keys():
            was, new = self.standings[place], now[place]
            # a reserve bounds the finish tag
            has_reserve = "reserve" in a.levels.of_workspace(place[0])
            if (was.weight, was.since) == (new.weight, new.since) and not has_reserve:
                wanted = was.balance + self._spent(a, place) / new.weight
                is_paid = isclose(new.balance, wanted, rel_tol=1e-9, abs_tol=ROUNDED)
                assert is_paid, (place, wanted, new)
        self._remember(a, now)

    def _was_empty(self, a: Audit, queue: str) -> bool:
        """Return whether every lease, flow and debt of a queue began, or came there, in this step.

        A job that ran in the node of a group, and not in the queue's own, gives its workspace no
        finish tag here before that leaves the group.
        """
        leases = {
            fence
            for fence, lease in a.space.leases.items()
            if fence in self.leases and self.leases[fence][0] == _place(a, lease)
            if _place(a, lease)[1] == queue
        }
        stands = {stand.arrival for _, stand, node in a.stands() if node == queue} - {None}
        debts = set(a.space.of("indebted", queue, otherwise={}).items())
        is_new = all(arrival > self.arrival for arrival in stands if arrival is not None)
        return is_new and not (leases or debts & self.debts[queue])

    def _spent(self, a: Audit, place: Place) -> float:
        """Return what this place's leases that have ended since have used."""
        count = "fairness=count" in a.space.one("limits", {}).get("configured:default:", "")
        spent = 0.0
        for fence, (of, lease, ends) in self.leases.items():
            if of == place and fence not in a.space.leases:
                held = max(lease.ran, (min(a.now, ends) - lease.claimed) * MICROSECONDS)
                used = self.used.get(fence, held)  # without a report it has expired
                spent += (lease.charged if used else 0.0) if count else used
        return spent

    def _remember(self, a: Audit, standings: dict[Place, Standing]) -> None:
        self.standings, self.used, self.beat = standings, {}, a.beat
        self.arrival = a.last_arrival
        self.debts = defaultdict(set)
        for (node,), members in a.space.all("indebted"):
            self.debts[node] = set(members.items())
        self.v = {queue: node.virtual_time for queue, node in a.space.nodes.items()}
        ends = a.space.lease_ends
        self.leases = {
            fence: (_place(a, lease), lease, lease.ended or ends[fence])
            for fence, lease in a.space.leases.items()
        }


def _standings(a: Audit) -> Iterator[tuple[Place, Standing]]:
    for ws, flow in a.flows():
        if flow.arrival is not None:
            yield (ws.name, flow.node), _standing(a, ws, flow)


def _place(a: Audit, lease: LeaseRow) -> Place:
    """Return the workspace and the node that the lease is charged to."""
    ws = a.space.workspaces[lease.workspace]
    node = lease.lane_key if ws.parent is None else f"{lease.lane_key}@{ws.parent}"
    nodes = {flow.lane_key: flow.node for flow in ws.flows}  # one may not have followed yet
    return lease.workspace, nodes.get(lease.lane_key, node)


def _standing(a: Audit, ws: WorkspaceRow, flow: FlowRow) -> Standing:
    mine = (lease for lease in a.space.leases.values() if lease.workspace == ws.name)
    charged = sum(each.charged for each in mine if _place(a, each)[1] == flow.node)
    weight = ws.weight or 1.0
    return Standing(flow.tag - (flow.cost + charged) / weight, weight, flow.since)
