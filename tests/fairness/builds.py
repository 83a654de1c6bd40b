"""Test builds: a store's arithmetic with one rule of the fair order switched off.

A build is edits of the source, of the Lua for one store and of the Python for the other. What an
edit replaces must stand there exactly once, so that no build can turn into the real thing unseen.
"""

from __future__ import annotations

import importlib
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import fairqueue
from fairqueue import Store
from fairqueue._linker import read_source

PACKAGE = Path(fairqueue.__file__).parent
MEMORY = "fairqueue._stores.memory"

Edit = tuple[str, str, str]
"""File, what stands there, what the build has instead."""


@dataclass(frozen=True)
class Build:
    """The same rule switched off in both stores."""

    lua: tuple[Edit, ...] = ()
    python: tuple[Edit, ...] = ()


PARKED = "state == 'parked' or state == 'rate'"

BUILDS: dict[str, Build] = {
    "the law": Build(),
    "a tag is recomputed against the moving V": Build(
        (
            ("_fair", "if state == 'ready' then return finish end", ""),
            ("_settle", "elseif not flow.serial then", "else Order.leave(ws, flow)"),
            (
                "_turn",
                "function Turn.runnable(node)\n",
                (
                    "function Turn.runnable(node)\n"
                    "  for _, at in ipairs(call('ZRANGE', K.ready(node.queue), 0, -1)) do"
                    " Settle.workspace(Workspaces.of(match(at, '^%d+:(.*)$'))) end\n"
                ),
            ),
        ),
        (
            ("_fairness", 'if state == "ready":', "if not state:"),
            ("settle", "elif flow.serial is None:", "else:\n        leave(ws, flow)"),
            (
                "claiming",
                "    for _ in range(SWEEP_MOST):\n",
                (
                    "    for _serial, name in list(node.ready.scores):\n"
                    "        settle(s, s.workspace(name))\n"
                    "    for _ in range(SWEEP_MOST):\n"
                ),
            ),
        ),
    ),
    "stayed runnable: lifted to V": Build(
        (("_fair", "if state == 'ready' then return finish end", ""),),
        (("_fairness", 'if state == "ready":', "if not state:"),),
    ),
    "no true-ups": Build(
        (("_order", "if seconds == 0 then return end", "if seconds then return end"),),
        (("order", "if seconds == 0:", "if seconds == seconds:"),),
    ),
    "charged its own average at claim": Build(
        (("_lease", "charged = flow.cost", "charged = Means.own(ws, task) or flow.cost"),),
        (("lease", "owner, flow.cost", "owner, ws.means.get(record.job.task, flow.cost)"),),
    ),
    "one V for all queues": Build(
        (
            (
                "_nodes",
                "  Nodes.known[queue] = node\n",
                (
                    "  Nodes.known[queue] = node\n"
                    "  for _, other in ipairs(call('HVALS', K.nodes())) do"
                    " node.v = max(node.v, tonumber(match(other, '^%S+'))) end\n"
                ),
            ),
        ),
        (
            (
                "state",
                "        return self.nodes.setdefault(queue, Node(queue))",
                (
                    "        node = self.nodes.setdefault(queue, Node(queue))\n"
                    "        node.v = max(other.v for other in self.nodes.values())\n"
                    "        return node"
                ),
            ),
        ),
    ),
    "V does not catch up": Build(
        (
            ("_fair", "return max(v, head_tag - head_step)", "return v"),
            ("_fair", "return highest_finish and max(v, highest_finish) or v", "return v"),
        ),
        (
            ("_fairness", "return max(v, head_tag - head_step)", "return v"),
            ("_fairness", "return v if highest_finish is None else", "return v if v == v else"),
        ),
    ),
    "F is dropped while leases live": Build(
        (
            (
                "_settle",
                "if finish and Settle.usage_of(ws) > 0 then",
                (
                    "if Settle.usage_of(ws) > 0 then"
                    " if finish and tonumber(finish) <= Nodes.of(flow.queue).v then"
                    " call('ZREM', K.finish(flow.queue), ws.name) flow.finish = nil end"
                ),
            ),
        ),
        (
            (
                "settle",
                "if finish is not None and not limited and ws.slots:",
                "if finish is not None and ws.slots and finish > node.v:",
            ),
            ("order", "flow.up.v if finish is None else finish", "finish or 0.0"),
        ),
    ),
    "a new weight does not rescale": Build(
        (("_fair", "return v + (tag - v) * ratio", "return tag"),),
        (("_fairness", "return v + (tag - v) * ratio", "return tag"),),
    ),
    "weights are ignored": Build(
        (("_settle", "limits.weight", "1"),),
        (("settle", "limits_of(s, ws).weight", "1.0"),),
    ),
    "unknown duration: the average": Build(
        (("_fair", "min(guess, head_cost or 0)", "guess"),),
        (("_fairness", "min(guess, head_cost or 0.0)", "guess"),),
    ),
    "unknown duration: the average, when nobody is in line": Build(
        (("_fair", "min(guess, head_cost or 0)", "min(guess, head_cost or guess)"),),
        (("_fairness", "min(guess, head_cost or 0.0)", "min(guess, head_cost or guess)"),),
    ),
    "parked: no credit": Build(
        (("_fair", "CREDIT_STEPS = 8", "CREDIT_STEPS = 0"),),
        (("_fairness", "CREDIT_STEPS = 8", "CREDIT_STEPS = 0"),),
    ),
    "parked: unbounded credit": Build(
        (("_fair", "return max(finish, v - CREDIT_STEPS * max(step, big))", "return finish"),),
        (("_fairness", "return max(finish, v - CREDIT_STEPS * max(step, big))", "return finish"),),
    ),
    "credit for who never dispatched": Build(
        (
            (
                "_fair",
                "if not finish then return v end",
                f"finish = finish or (({PARKED}) and -1e12 or v)",
            ),
        ),
        (
            (
                "_fairness",
                "    if finish is None:\n        return v\n",
                '    finish = (-1e12 if state == "parked" else v) if finish is None else finish\n',
            ),
        ),
    ),
    "no least charge": Build(
        (("_fair", "FLOOR_SECONDS = 0.001", "FLOOR_SECONDS = 0"),),
        (("_fairness", "FLOOR_SECONDS = 0.001", "FLOOR_SECONDS = 0.0"),),
    ),
    "start tags": Build(
        (
            ("_order", "step, node.big) + step", "step, node.big)"),
            (
                "_lease",
                "Order.set_finish(ws, flow, flow.tag)",
                "Order.set_finish(ws, flow, flow.tag + flow.cost / ws.weight)",
            ),
        ),
        (
            ("order", "step, node.big) + step", "step, node.big)"),
            ("order", "flow.tag + (cost - flow.cost) / weight", "flow.tag + cost / weight"),
        ),
    ),
    "nobody goes first": Build(
        (
            (
                "_turn",
                "K.first(node.id), 0, 0)[1] or member",
                "K.first(node.id), 9, 9)[1] or member",
            ),
        ),
        (("order", "first = node.foremost.first()", "first = None"),),
    ),
    "a debt is never forgiven": Build(
        (("_first", "if tonumber(flow.tag) > most then", "if false then"),),
        (("order", "flow.tag = min(flow.tag, most)", "pass"),),
    ),
    "a debt is forgiven also among those that go first": Build(
        (("_first", "following or 0)", "0)"),),
        (("order", "node.foremost.second() or 0.0", "0.0"),),
    ),
    "V rises with who goes first": Build(
        (("_lease", "if not (flow.first and First.jumps(ws, node, flow, step)) then", "do"),),
        (("order", "        flow.tag = min(flow.tag, most)\n", "        node.v = flow.tag\n"),),
    ),
    "a branch weighs as one workspace": Build(
        (("_climb", "b.weight = Fair.weight_of(b.total)", "b.weight = 1"),),
        (("branches", "b.weight = fair.weight_of(b.total)", "b.weight = 1.0"),),
    ),
    "who runs all that he has weighs nothing": Build(
        (("_branches", "flow.state == 'ready' or flow.state == 'busy'", "flow.state == 'ready'"),),
        (("branches", 'frozenset({"ready", "busy"})', 'frozenset({"ready"})'),),
    ),
    "a branch is not charged what was used": Build(
        (("_dues", "    if not flow.up then return end", "    if flow then return end"),),
        (("order", "while isinstance(node, Branch):", "while False:"),),
    ),
    "a group weighs as much as is in it": Build(
        (
            (
                "_climb",
                "b.weight = Caps.of_group(b.gate:sub(2)).weight",
                "b.weight = max(1, call('ZCARD', K.ready(b.id)))",
            ),
        ),
        (
            (
                "branches",
                "b.weight = limits_of_group(s, decode(b.gate[1:])).weight",
                "b.weight = max(1.0, float(len(b.ready)))",
            ),
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
    """Read the Lua of one build, file by file."""
    texts = _edited(BUILDS[build].lua, read_source)
    return lambda file: texts.get(file) or read_source(file)


def memory_store_of(build: str, folder: Path) -> Callable[..., Store]:
    """Make a memory store of one build: a copy of its package in ``folder``, which is on sys.path.

    The copy's imports lead into the copy.
    """
    name = f"build_{secrets.token_hex(6)}"
    package = folder / name
    shutil.copytree(PACKAGE / "_stores" / "memory", package)
    shutil.copy(PACKAGE / "_fairness.py", package)
    texts = _edited(BUILDS[build].python, lambda file: (package / f"{file}.py").read_text())
    for file, text in texts.items():
        (package / f"{file}.py").write_text(text)
    for path in package.glob("*.py"):
        text = path.read_text().replace(MEMORY, name)
        path.write_text(
            text.replace("from fairqueue import _fairness", f"from {name} import _fairness")
        )
    store: Callable[..., Store] = importlib.import_module(f"{name}.store").MemoryStore
    return store
