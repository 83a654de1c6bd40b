"""Whether two stores hold the same, to the last bit of every tag."""

from __future__ import annotations

from typing import Any

from fairqueue._keys import decode, encode
from fairqueue._stores.memory.state import State, Workspace
from fairqueue._stores.redis.keyspace import Keyspace, WorkspaceRow


def _flows_in_memory(ws: Workspace) -> Any:
    return {
        f"{encode(flow.queue)}/{flow.task}".rstrip("/"): (
            flow.state,
            flow.serial,
            flow.goes_first,
            flow.tag if flow.serial is not None else None,
            flow.cost,
            {str(p): [encode(r.job.id) for r in lane] for p, lane in flow.lanes.items()},
        )
        for flow in ws.flows
    }


def _flows_in_redis(space: Keyspace, ws: WorkspaceRow) -> Any:
    def lane(place: str, priority: str) -> list[str]:
        elements = space.of("lane", ws.name, place, priority)
        return [element.partition(":")[2] for element in elements]

    return {
        flow.place: (
            flow.state,
            flow.serial,
            flow.first,
            flow.tag if flow.serial is not None else None,
            flow.cost,
            {p: lane(flow.place, p) for p in flow.lanes},
        )
        for flow in ws.flows
    }


def _encoded(name: str | None) -> str | None:
    return None if name is None else encode(name)


def in_memory(s: State) -> dict[str, Any]:
    """What the memory store holds."""
    return {
        "workspaces": {
            ws.key: (ws.weight, _encoded(ws.parent), ws.tat, ws.timer, _flows_in_memory(ws))
            for ws in s.workspaces.values()
        },
        "nodes": {encode(node.queue): (node.v, node.big) for node in s.nodes.values()},
        "branches": {
            b.key: (
                b.v,
                b.big,
                b.weight,
                b.total,
                b.members,
                b.share,
                b.state,
                b.serial,
                b.goes_first,
                b.cost,
            )
            for b in s.branches.values()
        },
        "gates": {
            gate.key: (gate.block, gate.tat if gate.tat > s.now else 0.0, gate.timer)
            for gate in s.gates.values()
            if gate.block or gate.tat > s.now or gate.timer
        },
        "finish": {
            node.key: dict(node.finish.scores)
            for node in (*s.nodes.values(), *s.branches.values())
            if len(node.finish)
        },
        "first": {
            node.key: {f"{serial:015}:{key}": tag for (serial, key), tag in firsts.scores.items()}
            for node in (*s.nodes.values(), *s.branches.values())
            if len(firsts := node.foremost)
        },
        "leases": {
            str(h.fence): (h.charged, h.ran, h.early, h.cancelled, h.deliveries)
            for h in s.leases.values()
        },
        "expiry": {str(fence): at for (_, fence), at in s.expiry.scores.items()},
        "timer": dict(s.timer.scores),
        "tokens": {encode(queue) for queue in s.tokens.lying},
        "numbers": (s.fence, s.serial, s.beat or 0.0, s.grace, s.spared, s.watched),
    }


def in_redis(space: Keyspace, now: float) -> dict[str, Any]:
    """What the Redis store holds."""
    meta = space.one("meta", "0 0 0 0 0 - 0 - 0").split()
    return {
        "workspaces": {
            ws.name: (ws.weight, ws.parent, ws.tat, ws.timer, _flows_in_redis(space, ws))
            for ws in space.workspaces.values()
        },
        "nodes": {queue: numbers[:2] for queue, numbers in space.nodes.items()},
        "branches": {
            b.id: (
                b.v,
                b.big,
                b.weight,
                b.total,
                b.members,
                b.share,
                b.state,
                b.serial,
                b.first,
                b.cost,
            )
            for b in space.branches.values()
        },
        "gates": {
            name: (gate.block, gate.tat if gate.tat > now else 0.0, gate.timer)
            for name, gate in space.gates.items()
            if gate.block or gate.tat > now or gate.timer
        },
        "finish": {names[0]: dict(members) for names, members in space.all("finish")},
        "first": {names[0]: dict(members) for names, members in space.all("first")},
        "leases": {
            fence: (lease.charged, lease.ran, lease.early, lease.cancelled, lease.deliveries)
            for fence, lease in space.leases.items()
        },
        "expiry": dict(space.one("expiry", {})),
        "timer": dict(space.one("timer", {})),
        "tokens": {names[0] for names, _ in space.all("token")},
        "numbers": (int(meta[0]), int(meta[1]), *map(float, (meta[2], meta[3], meta[4], meta[6]))),
    }


def _without_passed(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out an F that V has reached: it is forgotten when its workspace is settled next.

    A publish behind others settles in one store and not in the other, which changes nothing else.
    """
    for name, (*_, flows) in found["workspaces"].items():
        for place, flow in list(flows.items()):
            finish = found["finish"].get(place, {})
            v, _ = found["nodes"].get(place, (0.0, 0.0))
            if flow[0] == "rest" and len(flows) > 1 and name in finish and finish[name] <= v:
                del flows[place], finish[name]
    found["finish"] = {node: finish for node, finish in found["finish"].items() if finish}
    return found


def differences(s: State, space: Keyspace) -> dict[str, tuple[Any, Any]]:
    """What is not the same, as (in memory, in Redis)."""
    memory, on_redis = _without_passed(in_memory(s)), _without_passed(in_redis(space, s.now))
    return {
        decode(name): (memory[name], on_redis[name])
        for name in memory
        if memory[name] != on_redis[name]
    }
