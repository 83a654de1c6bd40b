"""One look at a keyspace, and what the limits stored in it require."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from fairqueue._keys import LAYOUT
from fairqueue._stores import fairness as fair
from fairqueue.audit.keyspace import FlowRow, InnerNodeRow, Keyspace, WorkspaceRow
from fairqueue.audit.limits import Levels

ALMOST = 1e-6
HELD = {"at_limit", "at_task_limit", "rate", "task_rate", "put_off"}
FORMAT = "format=2"
TAKEN_BACK = 0.05
"""As in ``lua/calls/base.lua``."""
NUMBERS = struct.Struct("<8d")
"""What the shard's record begins with."""
_NO_META = bytes(NUMBERS.size) + f"- - - {FORMAT}".encode()
ENTRY = re.compile(r"\S+ \d+ [^:]+:.*")
"""How an entry of a schedule looks."""
_META = re.compile(r"\S+ \S+ \S+( spread)? ")


Where = tuple[str, ...]
"""The subject of a finding: a kind of thing and its names, encoded as in the keys."""
Found = tuple[Where, str]
"""The subject of a finding, and its text."""
M = TypeVar("M")


def unequal(
    one: str,
    there: AbstractSet[M],
    other: str,
    wanted: AbstractSet[M],
    *,
    stray: Callable[[M], Where],
    lacking: Callable[[M], Where] | None = None,
) -> Iterator[Found]:
    """Yield a finding for each member of only one of the sets; ``lacking`` names its subject.

    One for each member, so that a second look at a busy queue finds it in the same words.
    """
    yield from ((stray(each), f"{one} have {each}, {other} do not") for each in there - wanted)
    lacking = lacking or stray
    yield from ((lacking(each), f"{other} have {each}, {one} do not") for each in wanted - there)


def entry_of(kind: str) -> Callable[[tuple[Any, ...]], Where]:
    """Name an entry of a key of this kind: the names in the key, and the member."""
    return lambda at: ("entry", kind, *at[: len(LAYOUT[kind]) + 1])


def entity(name: str) -> Where:
    """The member of a node with this name: a workspace, or an inner node."""
    return ("node", name) if "/" in name or "@" in name else ("workspace", name)


def limited(name: str) -> Where:
    """The owner of a timer: a workspace, or a shared limit."""
    return ("shared_limit", name) if name[:1] in {"/", "@"} else ("workspace", name)


class Place(NamedTuple):
    """One place in which a job is."""

    queue: str
    job: str
    kind: str
    """``lane``, ``returned``, ``scheduled``, or ``lease`` for one that runs."""
    workspace: str
    lane_key: str
    priority: str
    element: str


def named(entry: str) -> tuple[str, str, str]:
    """Read an entry of a schedule: queue, priority, element."""
    queue, priority, element, *_ = [*entry.split(" ", 2), "-", "-"]
    return queue, priority, element


def job_of(workspace: str, entry: str) -> Where:
    """Name the job of an entry of this workspace."""
    queue, _, element = named(entry)
    return "job", queue, id_of(workspace, queue, element)


def id_of(workspace: str, queue: str, element: str) -> str:
    """Return what the job of an element is known by."""
    _, colon, job_id = element.partition(":")
    return f"{workspace}/{queue}/{job_id}" if colon else element


class Audit:
    """One look at a keyspace."""

    def __init__(self, space: Keyspace, now: float) -> None:
        self.space = space
        self.mark = space.one("shard", {}).get("shards", "")
        self.levels = Levels(space.one("limits", {}), self.mark)
        meta = space.shard_fields.get(b"record", _NO_META)
        words = meta[NUMBERS.size :].decode(errors="backslashreplace")
        self.format = meta.rpartition(b" ")[2].decode(errors="backslashreplace")
        """The last word of the shard's record."""
        self.meta_can_be_read = bool(_META.match(words)) and not any(
            map(math.isnan, NUMBERS.unpack_from(meta))
        )
        if not self.meta_can_be_read:
            meta, words = _NO_META, _NO_META[NUMBERS.size :].decode()
        self.beat, offset, window, *rest = NUMBERS.unpack_from(meta)
        fence, arrival, _watched, due, self.rebuild_at = rest
        _gaps, _watcher, drain, *_ = words.split()
        self.last_fence, self.last_arrival = int(fence), int(arrival)
        self.draining = drain != "-"
        """Whether a changed default has not reached every workspace yet."""
        self.due = due / 1e6
        offset = max(offset, self.beat - now)
        passed = now + offset - self.beat if self.beat else 0.0
        self.ahead = max(0.0, offset - passed * TAKEN_BACK)
        """By how many seconds the shard's clock is ahead of Redis's."""
        self.now = now + self.ahead
        self.window = int(window) or int(self.now // 60)
        """The last minute in which a job ended, or now where the record does not say it."""

    def entries(self, kind: str) -> set[tuple[Any, ...]]:
        """Every entry of the keys of a kind: names, member, and the score or text that it has."""
        return {
            (*names, *entry)
            for names, found in self.space.all(kind)
            for entry in (found.items() if isinstance(found, dict) else zip(found, strict=True))
        }

    def differs(
        self,
        kind: str,
        other: str,
        wanted: AbstractSet[tuple[Any, ...]],
        lacking: Callable[[Any], Where],
    ) -> Iterator[Found]:
        """Yield a finding for each entry that only the keys of a kind have, or only the others."""
        stray = entry_of(kind)
        yield from unequal(kind, self.entries(kind), other, wanted, stray=stray, lacking=lacking)

    def usage(self, level: str) -> int:
        """Leases of a workspace, or another level with slots."""
        return len(self.space.of("slots", level))

    def _block(self, limits: Mapping[str, float], tat: float, level: str) -> str | None:
        """Return which of its limits blocks a level with slots."""
        if "paused" in limits:
            return "paused"
        if self.levels.observed:
            return None
        rate, most = limits.get("rate"), limits.get("concurrency")
        if rate and fair.next_start(tat, rate, limits.get("burst", 1.0)) > self.now + ALMOST:
            return "rate"
        return "at_limit" if most is not None and self.usage(level) >= most else None

    def blocked(self, ws: WorkspaceRow, flow: FlowRow) -> str | None:
        """Return which limit of a workspace, or of a task in it, blocks one of its lanes."""
        block = self._block(self.levels.of_workspace(ws.name), ws.tat, ws.name)
        if block or not flow.task:
            return block
        tat = self.space.one("task_rates", {}).get(f"{ws.name}:{flow.task}", 0.0)
        block = self._block(self.levels.within(flow.task), tat, f"{ws.name}/{flow.task}")
        return block and {"rate": "task_rate", "at_limit": "at_task_limit"}[block]

    def closed(self, key: str) -> str | None:
        """Return why a shared limit is closed; one closed by its rate may have a due timer."""
        limits, row = self.levels.of_shared(key) or {}, self.space.shared_limits.get(key)
        tat = row.tat if row else 0.0
        block, is_wide = self._block(limits, tat, key), {"whole_concurrency", "whole_rate"}
        if block or self.levels.observed or not is_wide & limits.keys() or tat <= self.now + ALMOST:
            return block
        return "at_limit" if "whole_concurrency" in limits else "rate"

    def is_below(self, name: str) -> bool:
        """Whether a workspace, or a member of an inner node, runs below its reserve."""
        if name in self.space.inner_nodes:
            return bool(self.space.of("reserved", name))
        reserve = self.levels.of_workspace(name).get("reserve", 0)
        return not self.levels.observed and self.usage(name) < reserve

    def is_due(self, key: str) -> bool:
        """Whether its timer is due and was not fired yet."""
        row = self.space.shared_limits.get(key)
        return row is not None and row.timer is not None and row.timer <= self.now

    def follows(self, ws: WorkspaceRow) -> bool:
        """Whether its timer is due: then not all of its flows may have followed a change yet."""
        return ws.timer is not None and ws.timer <= self.now

    def is_open(self, queue: str) -> bool:
        """Whether neither the queue nor the total is full or paused."""
        of_queue, of_total = self.levels.of_queue(queue), self.levels.of_total()
        if "paused" in of_queue or "paused" in of_total:
            return False
        if self.levels.observed:
            return True
        own, total = of_queue.get("concurrency"), of_total.get("concurrency")
        used = len(self.space.of("slots_of_queue", queue))
        return (own is None or used < own) and (total is None or len(self.space.leases) < total)

    def stands(self) -> Iterator[tuple[str, FlowRow | InnerNodeRow, str]]:
        """Every member of every node: its name, its row, the node."""
        yield from ((ws.name, flow, flow.node) for ws, flow in self.flows())
        yield from ((b.id, b, b.node) for b in self.space.inner_nodes.values())

    def flows(self) -> Iterator[tuple[WorkspaceRow, FlowRow]]:
        """Every flow of every workspace."""
        for ws in self.space.workspaces.values():
            for flow in ws.flows:
                yield ws, flow

    def waiting(self) -> Iterator[Place]:
        """Every place in which a job waits; after damage it may be in several, or in none."""
        for names, lane in self.space.all("lane"):
            found = self.space.of("holes", *names, otherwise={}).items()
            holes = Counter({element: int(n) for element, n in found})
            for element in lane:
                if not holes[element]:
                    yield _in_lane("lane", names, element)
                else:
                    holes[element] -= 1
        for names, members in self.space.all("returned"):
            yield from (_in_lane("returned", names, element) for element in members)
        for (workspace,), entries in self.space.all("scheduled"):
            for queue, priority, element in map(named, filter(ENTRY.fullmatch, entries)):
                job = id_of(workspace, queue, element)
                yield Place(queue, job, "scheduled", workspace, queue, priority, element)

    def places(self) -> Iterator[Place]:
        """Every place of a job."""
        yield from self.waiting()
        for lease in self.space.leases.values():
            at = (
                lease.workspace,
                lease.lane_key,
                "-",
                f"{lease.task}:{lease.job.rpartition('/')[2]}",
            )
            yield Place(lease.queue, lease.job, "lease", *at)

    @cached_property
    def places_by_job(self) -> Mapping[tuple[str, str], list[Place]]:
        """The places of each job, by its queue and id."""
        found: defaultdict[tuple[str, str], list[Place]] = defaultdict(list)
        for place in self.places():
            found[place.queue, place.job].append(place)
        return found

    @cached_property
    def counts_of_inner_nodes(self) -> Mapping[str, tuple[int, int, int]]:
        """How many members each inner node has, what they weigh, and how many are held back."""
        members, totals, held = Counter[str](), Counter[str](), Counter[str]()
        for name, stand, node in self.stands():
            members[node] += 1
            held[node] += stand.state in HELD
            ws = self.space.workspaces.get(name)
            weight = ws.weight if ws else self.space.inner_nodes[name].weight
            totals[node] += fair.units_of(weight) if stand.state in {"ready", "busy"} else 0
        return {node: (n, totals[node], held[node]) for node, n in members.items()}


def _in_lane(kind: str, names: tuple[str, ...], element: str) -> Place:
    workspace, lane_key, priority = names
    queue = lane_key.partition("/")[0]
    job = id_of(workspace, queue, element)
    return Place(queue, job, kind, workspace, lane_key, priority, element)
