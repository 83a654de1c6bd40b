"""What the memory store remembers: jobs, workspaces, nodes, leases."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from fairqueue._stores.memory.ordered import Ordered
from fairqueue._stores.memory.tokens import Tokens
from fairqueue._types import Job, Limits, StoredLimits


@dataclass(slots=True, eq=False)
class Record:
    """A job from its publish to its end, also while it runs."""

    job: Job
    published: float
    deliveries: int = 0
    redelivered: bool = False


@dataclass(slots=True, eq=False)
class Held:
    """A lease; its job is at no other place."""

    fence: int
    record: Record
    owner: str
    charged: float
    claimed: float
    deliveries: int
    ran: float = 0.0
    early: bool = False


@dataclass(slots=True, eq=False)
class Flow:
    """How a workspace stands in one node.

    ``state``: ready, parked, rate (waits for its rate), idle, rest (idle, F still ahead of V).
    ``serial``: its place among equal tags; None unless it is in the ready set.
    """

    queue: str
    since: float
    state: str = "idle"
    tag: float = 0.0
    serial: int | None = None
    cost: float = 0.0
    lanes: dict[int, deque[Record]] = field(default_factory=dict)

    def first(self) -> Record:
        """The job that is next: the lowest priority number, first come."""
        return self.lanes[min(self.lanes)][0]


@dataclass(slots=True, eq=False)
class Workspace:
    """One tenant: its flows, leases, scheduled jobs and averages."""

    name: str
    flows: list[Flow] = field(default_factory=list)
    slots: set[int] = field(default_factory=set)
    scheduled: list[tuple[float, int, Record]] = field(default_factory=list)
    means: dict[str, float] = field(default_factory=dict)
    weight: float | None = None
    tat: float = 0.0
    drained: float = 0.0
    pace: float = 0.0
    timer: float | None = None


@dataclass(slots=True, eq=False)
class Node:
    """One order of flows: virtual time V, recent largest step, every F, the ready set."""

    queue: str
    v: float = 0.0
    big: float = 0.0
    drained: float = 0.0
    pace: float = 0.0
    ready: Ordered[tuple[int, str]] = field(default_factory=Ordered)
    finish: Ordered[str] = field(default_factory=Ordered)
    resting: Ordered[str] = field(default_factory=Ordered)
    slots: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Dead:
    """A dead letter."""

    record: Record
    since: float
    reason: str
    deliveries: int


class State:
    """One store, shared by all who opened its URL; ``now`` is the time of the running step."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: dict[str, dict[str, Record]] = {}
        self.workspaces: dict[str, Workspace] = {}
        self.nodes: dict[str, Node] = {}
        self.leases: dict[int, Held] = {}
        self.expiry: Ordered[tuple[str, int]] = Ordered()
        self.timer: Ordered[str] = Ordered()
        self.dead: dict[str, dict[str, Dead]] = {}
        self.lost: dict[str, int] = {}
        self.kinds: dict[str, bool] = {}
        self.boot: StoredLimits | None = None
        self.live: dict[tuple[str, str], Limits] = {}
        self.means: dict[str, float] = {}
        self.all_means = (0.0, 0)
        self.ended: dict[int, set[str]] = {}
        self.groups: dict[int, set[str]] = {}
        self.answers: dict[str, tuple[int, object, float]] = {}
        self.fence = self.serial = self.arrivals = 0
        self.beat: float | None = None
        self.grace = 0.0
        self.spared = 0.0
        self.watcher: str | None = None
        self.watched = 0.0
        self.draining: list[str] = []
        self.touched: set[str] = set()
        self.due: dict[str, float] = {}
        self.tokens = Tokens()

    def workspace(self, name: str) -> Workspace:
        """The workspace of this name; one of which nothing is left is dropped by tidy()."""
        return self.workspaces.setdefault(name, Workspace(name))

    def flow(self, ws: Workspace, queue: str) -> Flow:
        """How this workspace stands in this queue's node."""
        for flow in ws.flows:
            if flow.queue == queue:
                return flow
        ws.flows.append(Flow(queue, self.now))
        return ws.flows[-1]

    def node(self, queue: str) -> Node:
        """The order of this queue."""
        return self.nodes.setdefault(queue, Node(queue))

    def tidy(self, name: str) -> None:
        """Drop a workspace of which nothing is left."""
        ws = self.workspaces.get(name)
        if ws is not None and not ws.flows and ws.timer is None:
            del self.workspaces[name]
