"""Run every benchmark, one after the other, as ``make bench`` does."""

from __future__ import annotations

import importlib
import json
import sys

from _bench.machine import machine
from _bench.options import read
from _bench.progress import Progress
from _bench.report import as_json, show

BENCHMARKS = (
    "transport",
    "groups",
    "end_to_end",
    "dramatiq_end_to_end",
    "claim_cost",
    "redis_memory",
    "redis_cpu",
    "saturation",
    "shards",
    "wide_limits",
    "start_latency",
    "rest",
    "calls",
    "moved_jobs",
    "long_scripts",
)


def run() -> None:
    """Print each result as soon as it is complete; with --json, all of them at the end."""
    options, given = read()
    names = given.only.split(",") if given.only else BENCHMARKS
    found = {}
    if not given.json:
        print(machine())
    with Progress() as progress:
        for name in names:
            report = importlib.import_module(name).measure(options, progress)
            found[name] = as_json(report)
            if not given.json:
                show(report)
    if given.json:
        json.dump({"machine": machine(), "benchmarks": found}, sys.stdout, indent=1)
    else:
        print(machine())


if __name__ == "__main__":
    run()
