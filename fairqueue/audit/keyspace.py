"""Reads the raw keys of one shard and parses their records.

Names stay percent-encoded, as in the keys. The keys are not read in one atomic step: while others
write, only what several looks find is certain.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fairqueue._keys import LAYOUT, TYPES, decode
from fairqueue._stores.engine import Engine
from fairqueue._stores.schedules import StoredSchedule

R = TypeVar("R")
Names = tuple[str, ...]
MICROSECONDS = 1e6
_QUEUE = b"queue:"  # begins the fields of their nodes in the shard's hash
_NODE = struct.Struct("<7d")
_PARENT = re.compile(r"([^<>=]*)(?:([<>=])([^/]*)/\d+)?")
_JOB = re.compile(r"\S+ \S+ \d+ \d+ \S+ \S+")
_EXPIRES = re.compile(r"\S+ \S+ \d+ \d+ \S+ [^ /]*/([\d.]+)")


@dataclass(frozen=True, slots=True)
class Stand:
    """How a workspace, or an inner node, stands in a node."""

    state: str
    reserved: bool
    """Whether it is ready, and goes before others because its workspace is below its reserve."""
    since: float
    tag: float
    finish_tag: float | None
    arrival: int | None
    cost: float


@dataclass(frozen=True, slots=True)
class FlowRow(Stand):
    """A workspace's jobs in one node."""

    lane_key: str
    """``queue``, or ``queue/task`` for a task that has a limit of its own."""
    node: str
    """The lane key, and ``@parent`` for a workspace in a group."""
    lanes: tuple[str, ...]
    returned: tuple[str, ...]
    """The priorities of lanes with returned jobs."""
    holes: Mapping[str, int]
    """How many elements of each lane are holes, by priority; 0 is left out."""

    @property
    def queue(self) -> str:
        """The queue that it is in."""
        return self.lane_key.partition("/")[0]

    @property
    def task(self) -> str:
        """The one task whose jobs are here; empty: all tasks without a limit."""
        return self.lane_key.partition("/")[2]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """The node of a queue."""

    virtual_time: float
    least_debt: float
    """No flow that is idle with debt has a lower finish tag."""
    last_fence: int
    """The fence of its last dispatch; 0: none."""
    unused: bool
    """Whether the rebuild has found it unused, and nothing has used it since."""


@dataclass(frozen=True, slots=True)
class InnerNodeRow(Stand):
    """A node inside another."""

    id: str
    weight: float
    total: int
    members: int
    held: int

    @property
    def group(self) -> str:
        """The group whose workspaces are in it; empty: it is a task's."""
        return self.id.partition("@")[2]

    @property
    def node(self) -> str:
        """The node that it is in."""
        return self.id.rpartition("@" if self.group else "/")[0]

    @property
    def limit_key(self) -> str:
        """The shared limit that closes it."""
        return f"@{self.group}" if self.group else "/" + self.id.partition("/")[2]


@dataclass(frozen=True, slots=True)
class SharedLimitRow:
    """A limit that many workspaces share."""

    block: str | None
    tat: float
    timer: float | None
    walks: bool
    """Whether some of its nodes have not followed its last change."""


@dataclass(frozen=True, slots=True)
class WorkspaceRow:
    """The record of one workspace."""

    name: str
    weight: float
    parent: str | None
    moves: bool
    """Whether it moves to another group, or out of one."""
    other_group: str | None
    """The group that it joins or leaves."""
    tat: float
    scheduled: float | None
    expiring: float | None
    timer: float | None
    flows: tuple[FlowRow, ...]
    duration_estimates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The record of one lease."""

    lane_key: str
    job: str
    workspace: str
    task: str
    charged: float
    """In microseconds, as all costs and tags."""
    claimed: float
    ran: float
    owner: str
    early: bool
    cancelled: bool
    deliveries: int
    length: float
    ended: float | None
    """When it ended, if it has been spared since."""

    @property
    def queue(self) -> str:
        """The queue of its job."""
        return self.lane_key.partition("/")[0]


def _number(text: str) -> float | None:
    return None if text == "-" else float(text)


def _stand(
    words: Sequence[str],
) -> tuple[str, bool, float, float, float | None, int | None, float]:
    """Read the fields of a :class:`Stand`."""
    state, since, tag, finish, arrival, cost = words
    ready = "ready" if state == "reserved" else state, state == "reserved"
    at = None if arrival == "-" else int(arrival)
    return *ready, float(since), float(tag), _number(finish), at, float(cost)


def _flow(text: str, parent: str | None, other_group: str | None) -> FlowRow:
    """Read a flow; one of a workspace that moves may still be in the node of the other group."""
    lane_key, *stand, lanes, counts = [*text.split(" "), ""][:9]
    if lane_key.endswith("@"):
        lane_key, parent = lane_key[:-1], other_group
    pairs = (entry.split("=") for entry in counts.split(",") if counts)
    holes = {priority: int(n) for priority, n in pairs}
    node = lane_key if parent is None else f"{lane_key}@{parent}"
    marked = lanes.split(",") if lanes else []
    priorities = tuple(each.rstrip("+") for each in marked)
    returned = tuple(each.rstrip("+") for each in marked if each.endswith("+"))
    return FlowRow(*_stand(stand), lane_key, node, priorities, returned, holes)


def _node(record: bytes) -> NodeRow:
    if len(record) < _NODE.size:
        raise ValueError(record)
    virtual_time, _max_stride, _highest, least_debt, *_, last_fence = _NODE.unpack_from(record)
    return NodeRow(virtual_time, least_debt, int(last_fence), b"/" in record[_NODE.size :])


def _inner_node(name: str, text: str) -> InnerNodeRow:
    *numbers, members, held, _share, state, since, tag, finish, arrival, cost = text.split(" ")
    _virtual_time, _max_stride, _highest, weight, total = map(float, numbers)
    stand = _stand((state, since, tag, finish, arrival, cost))
    return InnerNodeRow(*stand, name, weight, int(total), int(members), int(held))


def _shared_limit(text: str) -> SharedLimitRow:
    block, tat, timer, *walk = text.split(" ")
    row = None if block == "-" else block, float(tat), _number(timer)
    return SharedLimitRow(*row, walks=bool(walk))


def _workspace(name: str, text: str) -> WorkspaceRow:
    head, flows, estimates = text.split("|")
    weight, tat, _last_start, _start_interval, scheduled, timer, *group = head.split(" ")
    move = _PARENT.fullmatch(group[0] if group else "")
    if not move:
        raise ValueError(head)
    parent, other_group = move[1] or None, move[3] or None
    due, _, expiring = scheduled.partition("/")
    pairs = (entry.split("=") for entry in estimates.split(";") if entry)
    return WorkspaceRow(
        name,
        float(weight),
        parent,
        move[2] is not None,
        other_group,
        float(tat),
        _number(due),
        _number(expiring or "-"),
        _number(timer),
        tuple(_flow(entry, parent, other_group) for entry in flows.split(";") if entry),
        {task: float(estimate) for task, estimate in pairs},
    )


def _lease(text: str) -> LeaseRow:
    lane_key, job, workspace, task, _, *times, owner, marks, deliveries, lasts = text.split()
    charged, claimed, ran = map(float, times)
    length, _, ended = lasts.partition("/")
    of_job, worked = (lane_key, job, workspace, task), (charged, claimed, ran, decode(owner))
    is_early, is_cancelled = marks in "13", marks in "23"
    ends = float(length), float(ended) if ended else None
    return LeaseRow(*of_job, *worked, is_early, is_cancelled, int(deliveries), *ends)


def _text(value: Any) -> Any:
    """Turn bytes into text; keep only the header of a record with a payload."""
    if isinstance(value, bytes):
        return value.partition(b"\n")[0].decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {_text(name): _text(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_text(entry) for entry in value]
    return {_text(entry) for entry in value} if isinstance(value, set) else value


def _type_of(value: Any) -> str:
    """Name the type of a key as Redis does, by the value that was read."""
    if isinstance(value, dict):
        return "zset" if any(isinstance(entry, float) for entry in value.values()) else "hash"
    types = ((str, "string"), (bytes, "string"), (list, "list"), (set, "set"))
    return next((name for kind, name in types if isinstance(value, kind)), "key of another type")


def expires_at(record: str) -> float | None:
    """Tell when a job expires, by its record; None: never, or it cannot be read."""
    found = _EXPIRES.match(record)
    return float(found[1]) if found else None


class Keyspace:
    """Every key of a namespace, by its kind and the names in it."""

    def __init__(self, engine: Engine) -> None:
        self.shard = engine.shard
        self._by_kind: dict[str, dict[Names, Any]] = {kind: {} for kind in LAYOUT}
        self.shard_fields: dict[bytes, bytes] = {}
        """The fields of the shard's hash."""
        self.strangers: list[str] = []
        """Keys under the prefix that are not in the layout."""
        self.foreign: dict[Names, str] = {}
        """Keys of the layout with a value of another type, and that type."""
        self.keys: list[Names] = []
        """Every key of the layout: its kind and names."""
        self.expiring: set[Names] = set()
        """Keys that have a time to live."""
        self.unreadable: list[Names] = []
        """Records that cannot be read, by their kind and names."""
        for key, value, expires in engine.dump(payloads=False):
            rest = key.decode(errors="backslashreplace").removeprefix(engine.keys.prefix)
            self._enter(rest, value, expires=expires)
        self._parse()

    def _enter(self, rest: str, value: Any, *, expires: bool) -> None:
        kind, *names = rest.split(":")
        if len(names) != len(LAYOUT.get(kind, (None,) * 99)):
            self.strangers.append(rest)
            return
        key = (kind, *names)
        self.keys.append(key)
        if expires:
            self.expiring.add(key)
        if kind == "shard" and isinstance(value, dict):
            self.shard_fields = value
        value = _text(value)
        if _type_of(value) == TYPES[kind]:
            self._by_kind[kind][tuple(names)] = value
        else:
            self.foreign[key] = f"{_type_of(value)}, not a {TYPES[kind]}"

    def _parse(self) -> None:
        self.workspaces = self._rows("workspaces", _workspace)
        self.leases = self._rows("leases", lambda _, text: _lease(text))
        self.inner_nodes = self._rows("inner_nodes", _inner_node)
        self.shared_limits = self._rows("shared_limits", lambda _, text: _shared_limit(text))
        self.nodes: dict[str, NodeRow] = {}
        for field, record in self.shard_fields.items():
            if field.startswith(_QUEUE):
                try:
                    self.nodes[field.removeprefix(_QUEUE).decode()] = _node(record)
                except ValueError:
                    self.unreadable.append(("shard", field.decode(errors="backslashreplace")))
        for (queue,), records in self.all("jobs"):
            self.unreadable += [
                ("jobs", queue, job) for job, text in records.items() if not _JOB.match(text)
            ]

        self.schedules: list[StoredSchedule] = []
        for (workspace,), records in self.all("schedules"):
            for name, text in records.items():
                try:
                    row = StoredSchedule(workspace, name, *text.split(" "))
                    self.schedules += [row] if row.due + float(row.seen) >= 0 else []
                except (ValueError, TypeError):
                    self.unreadable.append(("schedules", workspace, name))

    def _rows(self, kind: str, read: Callable[[str, str], R]) -> dict[str, R]:
        rows: dict[str, R] = {}
        for name, text in self.one(kind, {}).items():
            try:
                rows[name] = read(name, text)
            except ValueError:
                self.unreadable.append((kind, name))
        return rows

    def one(self, kind: str, otherwise: Any) -> Any:
        """The key of a kind of which there is one."""
        return self._by_kind[kind].get((), otherwise)

    @property
    def lease_ends(self) -> dict[str, float]:
        """When each lease ends, by its fence."""
        return {fence: at / MICROSECONDS for fence, at in self.one("expiry", {}).items()}

    def of(self, kind: str, *names: str, otherwise: Any = ()) -> Any:
        """The key of a kind and these names."""
        return self._by_kind[kind].get(names, otherwise)

    def all(self, kind: str) -> Iterable[tuple[Names, Any]]:
        """Every key of a kind."""
        return self._by_kind[kind].items()
