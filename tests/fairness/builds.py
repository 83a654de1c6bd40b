"""Builds of the scripts with one rule of the fair order switched off.

A build is a list of edits to the Lua. The text that an edit replaces must occur exactly once, so a
build cannot become the unchanged scripts by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fairqueue._stores.library import read_source
from tests.short_ways import without_short_ways

Edit = tuple[str, str, str]
"""File, text to replace, replacement."""

BLOCKED = "Fairness.is_held(state)"

BUILDS: dict[str, tuple[Edit, ...]] = {
    "unchanged": (),
    "waiting tags are recomputed": (
        ("scheduler/fairness", "if state == 'ready' then return finish_tag end", ""),
        ("scheduler/settle", "elseif not flow.arrival then", "else Order.leave(ws, flow)"),
        (
            "scheduler/select",
            "function Select.runnable(node)\n",
            (
                "function Select.runnable(node)\n"
                "  for _, at in ipairs(call('ZRANGE', K.ready(node.queue), 0, -1)) do"
                " Settle.workspace(Records.workspace(match(at, '^%d+:(.*)$'))) end\n"
            ),
        ),
    ),
    "runnable workspaces are lifted to virtual time": (
        ("scheduler/fairness", "if state == 'ready' then return finish_tag end", ""),
    ),
    "no correction by measured durations": (
        ("scheduler/order", "if used == 0 then return end", "if used then return end"),
    ),
    "an expired lease costs what its worker reported": (
        ("scheduler/fairness", "return max(tonumber(reported), held)", "return tonumber(reported)"),
    ),
    "a declined job costs nothing": (
        ("scheduler/fairness", "return max(DECLINED, held)", "return 0"),
    ),
    "a claim costs the workspace's own average": (
        (
            "state/leases",
            "local cost, guess = Order.price(ws, flow, task)",
            (
                "local cost, guess = Order.price(ws, flow, task)"
                " cost = Order.own_estimate(ws, task) or cost"
            ),
        ),
    ),
    "one virtual time for all queues": (
        (
            "state/records",
            "  S.nodes[queue] = node\n",
            (
                "  S.nodes[queue] = node\n"
                "  for _, other in ipairs(call('HKEYS', K.nodes())) do"
                " node.virtual_time = max(node.virtual_time,"
                " tonumber(match(call('HGET', K.nodes(), other), '^%S+'))) end\n"
            ),
        ),
    ),
    "virtual time does not catch up": (
        (
            "scheduler/fairness",
            "return max(virtual_time, head_tag - head_stride)",
            "return virtual_time",
        ),
        (
            "scheduler/fairness",
            "return highest_finish_tag and max(virtual_time, highest_finish_tag) or 0",
            "return virtual_time",
        ),
    ),
    "finish tags are dropped while leases live": (
        (
            "scheduler/settle",
            "if finish_tag and Limits.usage_of(ws) > 0 then",
            (
                "if Limits.usage_of(ws) > 0 then if finish_tag and"
                " tonumber(finish_tag) <= Records.node(flow.queue).virtual_time then"
                " call('ZREM', K.finish(flow.queue), ws.name) flow.finish_tag = nil end"
            ),
        ),
    ),
    "a new weight does not rescale tags": (
        (
            "scheduler/fairness",
            "return Fairness.whole(virtual_time + (tag - virtual_time) * ratio)",
            "return tag",
        ),
    ),
    "weights are ignored": (("scheduler/settle", "limits.weight", "1"),),
    "an unknown duration is guessed when its flow joins": (
        (
            "scheduler/order",
            "or 0\nend\n\n-- What a job that starts",
            (
                "or Order.guessed(ws, flow)\nend\n\n"
                "function Order.guessed(ws, flow)\n"
                "  local _, head = Order.head_of(Records.node(flow.node))\n"
                "  local average = Tasks.average_of(Lanes.first_task(ws, flow))\n"
                "  return max(min(average, head and tonumber(head.cost) or 0), 1000)\n"
                "end\n\n-- What a job that starts"
            ),
        ),
    ),
    "an unknown duration costs the average": (
        (
            "scheduler/order",
            "or 0\nend\n\n-- What a job that starts",
            "or Tasks.average_of(Lanes.first_task(ws, flow))\nend\n\n-- What a job that starts",
        ),
    ),
    "a guess does not move virtual time": (
        (
            "scheduler/order",
            "return min(tag, flow.tag + Fairness.stride(guess, entity.weight))",
            "return from",
        ),
    ),
    "a guess moves virtual time beyond the next flow": (
        ("scheduler/order", "return min(tag, flow.tag", "return (flow.tag"),
    ),
    "a guess is charged": (
        ("scheduler/order", "int(own and guess or Fairness.FLOOR)", "int(guess)"),
    ),
    "no credit at a limit": (("scheduler/fairness", "CREDIT_STRIDES = 8", "CREDIT_STRIDES = 0"),),
    "no credit for an inner node at its members' limits": (
        ("scheduler/settle", "b.held > 0 and 'at_task_limit' or ", ""),
    ),
    "unbounded credit at a limit": (
        (
            "scheduler/fairness",
            "return max(finish_tag, virtual_time - Fairness.credit(max(stride, max_stride)))",
            "return finish_tag",
        ),
    ),
    "credit before the first start": (
        (
            "scheduler/fairness",
            "if not finish_tag then return virtual_time end",
            f"finish_tag = finish_tag or (({BLOCKED}) and -1e12 or virtual_time)",
        ),
    ),
    "no minimum cost": (("scheduler/fairness", "Fairness.FLOOR = 1000", "Fairness.FLOOR = 0"),),
    "start tags instead of finish tags": (
        ("scheduler/order", "base + stride", "base"),
        (
            "scheduler/settle",
            "Order.set_finish_tag(ws, flow, flow.tag)",
            "Order.set_finish_tag(ws, flow, flow.tag + flow.cost / ws.weight)",
        ),
    ),
    "reserves are ignored": (
        (
            "scheduler/select",
            "K.reserved(node.id), 0, 0)[1]",
            "K.reserved(node.id), 9, 9)[1]",
        ),
    ),
    "debt is unbounded": (
        ("scheduler/order", "if tonumber(flow.tag) > most then", "if false then"),
    ),
    "debt is bounded between reserved workspaces, too": (
        ("scheduler/order", "following or 0)", "0)"),
    ),
    "reserved starts advance virtual time": (
        (
            "scheduler/settle",
            "if not (flow.reserved and Order.jumps(ws, node, flow, stride)) then",
            "do",
        ),
    ),
    "a node weighs as one workspace": (
        ("scheduler/settle", "b.weight = Fairness.weight_of(b.total)", "b.weight = 1"),
    ),
    "workspaces without a waiting job weigh nothing": (
        (
            "state/records",
            "flow.state == 'ready' or flow.state == 'busy'",
            "flow.state == 'ready'",
        ),
    ),
    "a node is not charged the measured duration": (
        ("scheduler/order", "    if not flow.up then return end", "    if flow then return end"),
    ),
    "a group weighs as much as its workspaces": (
        (
            "scheduler/settle",
            "b.weight = Limits.of_group(b.limit_key:sub(2)).weight",
            "b.weight = max(1, call('ZCARD', K.ready(b.id)))",
        ),
    ),
}


def _edited(edits: Iterable[Edit], read: Callable[[str], str]) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    for file, old, new in edits:
        text = texts.get(file) or read(file)
        assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
        texts[file] = text.replace(old, new)
    return texts


def lua_of(build: str) -> Callable[[str], str]:
    """Return a function that reads the Lua files of one build.

    The short ways have no part in an edited build: it would be half of what it says.
    """
    read = without_short_ways if BUILDS[build] else read_source
    texts = _edited(BUILDS[build], read)
    return lambda file: texts.get(file) or read(file)
