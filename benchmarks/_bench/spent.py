"""Measure what Redis spends, by its own count: microseconds per command, processor time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from _bench.report import Cost

OWN = ("info", "config|resetstat", "ping", "auth", "hello", "client|setinfo", "select")
"""Commands of the benchmark itself, and of opening connections."""

SCRIPTS = ("fcall", "evalsha", "eval")
SCRIPTED_SHARE = 1 / 3
"""A side works by scripts if they take more than this share of its time.

Stock sometimes runs a script for a lock. Redis counts the commands that a script calls a second
time, so they must be left out where scripts do the work.
"""


@dataclass
class Spent:
    """Wall and processor seconds of a phase, and calls and microseconds per command."""

    wall: float = 0.0
    cpu: float = 0.0
    """Of Redis."""
    own_cpu: float = 0.0
    """Of this thread."""
    calls: dict[str, float] = field(default_factory=dict)
    usec: dict[str, float] = field(default_factory=dict)

    @property
    def script_usec(self) -> float:
        """Microseconds per call of a script."""
        calls = sum(self.calls.get(name, 0) for name in SCRIPTS)
        return sum(self.usec.get(name, 0) for name in SCRIPTS) / calls if calls else 0.0


def _cpu(client: Any) -> float:
    info = client.info("cpu")
    return float(info["used_cpu_sys"] + info["used_cpu_user"])


@contextmanager
def spending(client: Any) -> Iterator[Spent]:
    """Measure the block; the figures are filled in when it ends."""
    spent = Spent()
    client.config_resetstat()
    before, began, own = _cpu(client), time.perf_counter(), time.thread_time()
    yield spent
    spent.own_cpu = time.thread_time() - own
    spent.wall, spent.cpu = time.perf_counter() - began, _cpu(client) - before
    for name, stats in client.info("commandstats").items():
        command = name.removeprefix("cmdstat_").lower()
        if command not in OWN:
            spent.calls[command] = stats["calls"]
            spent.usec[command] = stats["usec"]


def cost(phase: str, side: str, turns: Iterable[Spent], jobs: int) -> Cost:
    """Sum several turns of one phase. Commands called by a script count as part of the script."""
    calls: dict[str, float] = defaultdict(float)
    usec: dict[str, float] = defaultdict(float)
    total = 0
    for spent in turns:
        total += jobs
        for name in spent.calls:
            calls[name] += spent.calls[name]
            usec[name] += spent.usec[name]
    scripts = [name for name in SCRIPTS if name in calls]
    by_script = sum(usec[name] for name in scripts) > SCRIPTED_SHARE * sum(usec.values())
    top = scripts if by_script else sorted(calls, key=lambda name: -usec[name])
    others = [name for name in ("blpop", "brpop") if name in calls and name not in top]
    commands = [
        f"{name}: {calls[name] / total:.2f} × {usec[name] / calls[name]:.1f}"
        for name in top[:6] + others
    ]
    per_job = sum(usec[name] for name in top + others) / total
    return Cost(phase, side, per_job, ", ".join(commands))
