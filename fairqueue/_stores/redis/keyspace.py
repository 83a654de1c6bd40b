"""Reads the raw keys of one shard as they stand, for who audits them.

Names stay percent-encoded, as in the keys. Not one atomic look: where others are at work, only
what is found twice is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fairqueue._keys import LAYOUT, Keys

Names = tuple[str, ...]
_SPECIAL = re.compile(r"([*?\[\]\\])")


@dataclass(frozen=True, slots=True)
class FlowRow:
    """How a workspace stands in one node."""

    place: str
    """``queue``, or ``queue/task`` for a task that has a limit of its own."""
    node: str
    """The place, and ``@parent`` for a workspace in a group."""
    state: str
    first: bool
    """It is ready, and goes before others since its workspace runs below its reserve."""
    tag: float
    serial: int | None
    cost: float
    lanes: tuple[str, ...]

    @property
    def queue(self) -> str:
        """The queue that it is in."""
        return self.place.partition("/")[0]

    @property
    def task(self) -> str:
        """Number of the task whose jobs alone are here; empty: all that have no limit."""
        return self.place.partition("/")[2]


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A node inside another, and how it stands there."""

    id: str
    v: float
    big: float
    weight: float
    total: int
    members: int
    share: int
    state: str
    first: bool
    tag: float
    serial: int | None
    cost: float

    @property
    def group(self) -> str:
        """The group whose workspaces are in it; empty: it is a task's."""
        return self.id.partition("@")[2]

    @property
    def up(self) -> str:
        """The node that it is in."""
        return self.id.rpartition("@" if self.group else "/")[0]

    @property
    def gate(self) -> str:
        """The limit that closes it."""
        return f"@{self.group}" if self.group else "/" + self.id.partition("/")[2]


@dataclass(frozen=True, slots=True)
class GateRow:
    """A limit that many share."""

    block: str | None
    tat: float
    timer: float | None


@dataclass(frozen=True, slots=True)
class WorkspaceRow:
    """The record of one workspace."""

    name: str
    weight: float
    parent: str | None
    tat: float
    scheduled: float | None
    expiring: float | None
    timer: float | None
    flows: tuple[FlowRow, ...]
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """The record of one lease."""

    place: str
    queue: str
    job: str
    workspace: str
    task: str
    charged: float
    ran: float
    early: bool
    cancelled: bool
    deliveries: int


def _number(text: str) -> float | None:
    return None if text == "-" else float(text)


def _serial(text: str) -> int | None:
    return None if text == "-" else int(text)


def _state(text: str) -> tuple[str, bool]:
    """How it stands, and whether it goes first."""
    return ("ready", True) if text == "first" else (text, False)


def _flow(text: str, parent: str | None) -> FlowRow:
    place, state, _since, tag, serial, cost, lanes = text.split(" ")
    node = place if parent is None else f"{place}@{parent}"
    priorities = tuple(lanes.split(",")) if lanes else ()
    return FlowRow(
        place, node, *_state(state), float(tag), _serial(serial), float(cost), priorities
    )


def _branch(name: str, text: str) -> BranchRow:
    v, big, weight, total, members, share, state, _since, tag, serial, cost = text.split(" ")
    numbers = float(v), float(big), float(weight), int(total), int(members), int(share)
    return BranchRow(name, *numbers, *_state(state), float(tag), _serial(serial), float(cost))


def _gate(text: str) -> GateRow:
    block, tat, timer = text.split(" ")
    return GateRow(None if block == "-" else block, float(tat), _number(timer))


def _workspace(name: str, text: str) -> WorkspaceRow:
    head, flows, means = text.split("|")
    weight, tat, _drained, _pace, scheduled, timer, *group = head.split(" ")
    parent = group[0] if group else None
    first, _, expiring = scheduled.partition("/")
    pairs = (entry.split("=") for entry in means.split(";") if entry)
    return WorkspaceRow(
        name,
        float(weight),
        parent,
        float(tat),
        _number(first),
        _number(expiring or "-"),
        _number(timer),
        tuple(_flow(entry, parent) for entry in flows.split(";") if entry),
        {task: float(mean) for task, mean in pairs},
    )


def _lease(text: str) -> LeaseRow:
    place, job, workspace, task, _priority, charged, _claimed, ran, _owner, marks, n = text.split()
    queue, numbers = place.partition("/")[0], (float(charged), float(ran))
    early, cancelled = marks in "13", marks in "23"
    return LeaseRow(place, queue, job, workspace, task, *numbers, early, cancelled, int(n))


def _text(value: Any) -> Any:
    """Bytes as text; of a record with a payload only the header."""
    if isinstance(value, bytes):
        return value.partition(b"\n")[0].decode()
    if isinstance(value, dict):
        return {_text(name): _text(entry) for name, entry in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple | list):
        return {_text(member): score for member, score in value}
    if isinstance(value, list):
        return [_text(entry) for entry in value]
    return {_text(entry) for entry in value} if isinstance(value, set) else value


class Keyspace:
    """Every key of a namespace, by its kind and the names in it."""

    def __init__(self, client: Any, keys: Keys) -> None:
        self._by_kind: dict[str, dict[Names, Any]] = {kind: {} for kind in LAYOUT}
        self.strangers: list[str] = []
        """Keys under the prefix that the layout does not know."""
        self.mortal: set[str] = set()
        """Kinds of which a key has a time to live."""
        self.immortal: set[str] = set()
        """Kinds of which a key has none."""
        match = _SPECIAL.sub(r"\\\1", keys.prefix) + "*"
        found = sorted(set(client.scan_iter(match=match, count=1000)))
        for key, value, ttl in zip(found, *_values(client, found), strict=True):
            self._enter(key.decode().removeprefix(keys.prefix), _text(value), ttl)
        self._parse()

    def _enter(self, rest: str, value: Any, ttl: int) -> None:
        kind, *names = rest.split(":")
        if len(names) != len(LAYOUT.get(kind, (None,) * 99)):
            self.strangers.append(rest)
            return
        (self.immortal if ttl == -1 else self.mortal).add(kind)
        self._by_kind[kind][tuple(names)] = value

    def _parse(self) -> None:
        self.workspaces = {n: _workspace(n, t) for n, t in self.one("workspaces", {}).items()}
        self.leases = {fence: _lease(text) for fence, text in self.one("leases", {}).items()}
        self.branches = {n: _branch(n, t) for n, t in self.one("branches", {}).items()}
        self.gates = {name: _gate(text) for name, text in self.one("gates", {}).items()}
        self.nodes = {
            queue: tuple(map(float, text.split()[:4]))
            for queue, text in self.one("nodes", {}).items()
        }

    def one(self, kind: str, otherwise: Any) -> Any:
        """The key of a kind of which there is one."""
        return self._by_kind[kind].get((), otherwise)

    def of(self, kind: str, *names: str, otherwise: Any = ()) -> Any:
        """The key of a kind and these names."""
        return self._by_kind[kind].get(names, otherwise)

    def all(self, kind: str) -> Iterable[tuple[Names, Any]]:
        """Every key of a kind."""
        return self._by_kind[kind].items()


def _values(client: Any, found: list[bytes]) -> tuple[list[Any], list[int]]:
    """Each key's value and its time to live, in three round trips."""
    looks, reads, ttls = (client.pipeline(transaction=False) for _ in range(3))
    for key in found:
        looks.type(key)
        ttls.ttl(key)
    for key, kind in zip(found, looks.execute(), strict=True):
        _read(reads, key, kind)
    return reads.execute(), ttls.execute()


def _read(pipeline: Any, key: bytes, kind: bytes) -> None:
    if kind == b"zset":
        pipeline.zrange(key, 0, -1, withscores=True)
    elif kind == b"list":
        pipeline.lrange(key, 0, -1)
    else:
        read = {b"hash": pipeline.hgetall, b"set": pipeline.smembers, b"string": pipeline.get}
        read.get(kind, pipeline.exists)(key)
