"""What the memory store remembers: jobs, workspaces, nodes, leases."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from fairqueue._keys import encode
from fairqueue._stores.memory.ordered import Ordered
from fairqueue._stores.memory.tokens import Tokens
from fairqueue._types import KEPT_COUNT, KEPT_SECONDS, Delivery, Job, Limits, Pause, StoredLimits


@dataclass(slots=True, eq=False)
class Record:
    """A job from its publish to its end, also while it runs."""

    job: Job
    published: float
    deliveries: int = 0
    redelivered: bool = False
    history: tuple[Delivery, ...] = ()
    turned_away: int = 0
    expires: float | None = None


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
    cancelled: bool = False
    place: str = ""
    """Number of the task in whose own node it was started, if there was one."""


@dataclass(slots=True, eq=False)
class Flow:
    """How a workspace stands in one node.

    ``state``: ready, parked, rate (waits for its rate), lane (this task's limit per workspace is
    reached), busy (nothing waits here, some of it runs), idle, rest (idle, F still ahead of V).
    ``serial``: its place among equal tags; None unless it is in the ready set.
    """

    queue: str
    task: str
    """Number of the task whose jobs alone are here; empty: all that have no limit of their own."""
    up: Node
    since: float
    share: int = 0
    """Units of weight that it adds to its branch."""
    state: str = "idle"
    tag: float = 0.0
    serial: int | None = None
    goes_first: bool = False
    """It is ready, and its workspace runs below its reserve."""
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
    expiring: list[tuple[float, int, Record]] = field(default_factory=list)
    means: dict[str, float] = field(default_factory=dict)
    weight: float | None = None
    parent: str | None = None
    tat: float = 0.0
    drained: float = 0.0
    pace: float = 0.0
    timer: float | None = None
    key: str = ""
    """Its name as a member of a node: encoded, as on Redis, so that ties fall alike."""

    def __post_init__(self) -> None:
        self.key = encode(self.name)


@dataclass(slots=True, eq=False)
class Node:
    """One order of flows: virtual time V, recent largest step, every F, the ready set."""

    queue: str
    v: float = 0.0
    big: float = 0.0
    drained: float = 0.0
    pace: float = 0.0
    ready: Ordered[tuple[int, str]] = field(default_factory=Ordered)
    foremost: Ordered[tuple[int, str]] = field(default_factory=Ordered)
    """Those that are ready and run below their reserve, with the same tags."""
    finish: Ordered[str] = field(default_factory=Ordered)
    resting: Ordered[str] = field(default_factory=Ordered)
    slots: set[int] = field(default_factory=set)
    key: str = ""

    def __post_init__(self) -> None:
        self.key = self.key or encode(self.queue)


@dataclass(slots=True, eq=False, kw_only=True)
class Branch(Node):
    """A node inside another: the jobs of one task that has a limit, or those of one group.

    Among its siblings it counts as one flow. That of a task weighs as much as its members do
    together, that of a group as much as the group.
    """

    up: Node
    gate: str
    since: float
    weight: float = 1.0
    members: int = 0
    """Flows and branches that are in it, however they stand."""
    total: int = 0
    """Units of weight of its members that are ready or busy."""
    state: str = "idle"
    tag: float = 0.0
    serial: int | None = None
    goes_first: bool = False
    cost: float = 0.0
    share: int = 0


@dataclass(slots=True, eq=False)
class Gate:
    """A limit that many share: of a task (``/number``) or of a group (``@name``)."""

    key: str
    slots: set[int] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)
    block: str | None = None
    """Why its branches are closed, as they were last settled."""
    tat: float = 0.0
    timer: float | None = None


@dataclass(slots=True)
class Dead:
    """A dead letter."""

    record: Record
    since: float
    reason: str
    deliveries: int


def group_gate(name: str) -> str:
    """The gate of a group of workspaces."""
    return f"@{encode(name)}"


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
        self.branches: dict[str, Branch] = {}
        self.gates: dict[str, Gate] = {}
        self.tasks: dict[str, str] = {}
        self.task_names: list[str] = []
        self.shares: dict[tuple[str, str], set[int]] = {}
        self.dead: dict[str, dict[str, Dead]] = {}
        self.untold: dict[str, Ordered[tuple[str, str]]] = {}
        """Per queue: workspace and id, as keys, of whose death nobody has been told."""
        self.retention: tuple[float | None, int | None] = KEPT_SECONDS, KEPT_COUNT
        self.lost: dict[str, int] = {}
        self.observed: dict[str, Counter[str]] = {}
        """What limits would have held or refused, by workspace."""
        self.kinds: dict[str, bool] = {}
        self.boot: StoredLimits | None = None
        self.pauses: dict[tuple[str, str], Pause] = {}
        self.held_since: dict[tuple[str, str], float] = {}
        """Of every pause and drain."""
        self.live: dict[tuple[str, str], Limits] = {}
        self.given: dict[str, Limits] = {}
        """What a limit provider says, by workspace."""
        self.asked: dict[str, float] = {}  # when; or minus when it was called old
        self.means: dict[str, float] = {}
        self.all_means = (0.0, 0)
        self.unique: dict[tuple[str, str, str], tuple[str, str, float | None]] = {}
        """Workspace, task and key -> queue and id of the job, and until when the key counts."""
        self.ended: dict[int, set[str]] = {}
        self.groups: dict[int, set[str]] = {}
        self.answers: dict[str, tuple[int, object, float]] = {}
        self.fence = self.serial = self.arrivals = 0
        self.beat: float | None = None
        self.grace = 0.0
        self.spared = 0.0
        self.watcher: tuple[str, bool] | None = None  # owner, and whether it is shy
        self.watched = 0.0
        self.draining: list[str] = []
        self.touched: set[str] = set()
        self.due: dict[str, float] = {}
        self.tokens = Tokens()
        self.lists: dict[str, list[bytes]] = {}
        """Another system's; the last element is next."""
        self.leaving_until = 0.0
        self.taken: dict[str, int] = {}

    def workspace(self, name: str) -> Workspace:
        """The workspace of this name; one of which nothing is left is dropped by tidy()."""
        return self.workspaces.setdefault(name, Workspace(name))

    def flow(self, ws: Workspace, queue: str, task: str = "") -> Flow:
        """How this workspace stands in a queue's node, or in that of a task of its own."""
        for flow in ws.flows:
            if flow.queue == queue and flow.task == task:
                return flow
        flow = Flow(queue, task, self.leaf(queue, task, ws.parent), self.now)
        ws.flows.append(flow)
        self.add_member(flow.up, 1)
        return flow

    def leaf(self, queue: str, task: str, parent: str | None) -> Node:
        """The node for such a place: queue, then task, then group."""
        node: Node = self.node(queue)
        if task:
            node = self._branch(node, f"/{task}")
        return node if parent is None else self._branch(node, group_gate(parent))

    def _branch(self, up: Node, gate: str) -> Branch:
        key = up.key + gate
        if key not in self.branches:
            self.branches[key] = Branch(up.queue, key=key, up=up, gate=gate, since=self.now)
            self.gate(gate).branches.add(key)
            self.add_member(up, 1)
        return self.branches[key]

    def add_member(self, node: Node, n: int) -> None:
        """So many stand in this node from now on."""
        if isinstance(node, Branch):
            node.members += n

    def gate(self, key: str) -> Gate:
        """The limit that many share."""
        return self.gates.setdefault(key, Gate(key))

    def task_number(self, name: str) -> str:
        """Tasks are numbered, so that places have short names."""
        if name not in self.tasks:
            self.task_names.append(name)
        return self.tasks.setdefault(name, str(len(self.tasks) + 1))

    def node(self, queue: str) -> Node:
        """The order of this queue."""
        return self.nodes.setdefault(queue, Node(queue))

    def tidy(self, name: str) -> None:
        """Drop a workspace of which nothing is left."""
        ws = self.workspaces.get(name)
        if ws is not None and not ws.flows and ws.timer is None:
            del self.workspaces[name]
