"""Play seeds of the simulated fleet for a time: ``python -m tests.simulation 600 --seed 1``.

The first course that breaks a promise is shrunk to a page: without the faults that it does not
need, and with as few processes as still break it.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import time

from tests.simulation.course import BrokenError, Course
from tests.simulation.shards import ShardFleet
from tests.simulation.world import FAULTS, PROCESSES, World

STEPS = 20_000
LINES = 45


def broken(world: Course, steps: int) -> str:
    """Play this many steps; say which promise was broken, or nothing."""
    try:
        world.play(steps)
    except BrokenError as error:
        return str(error)
    return ""


def page(seed: int, steps: int) -> str:
    """Shrink a course that breaks a promise, and tell its end."""
    without, processes = frozenset[str](), PROCESSES
    for fault in FAULTS:
        if broken(World(seed, without=without | {fault}), steps):
            without |= {fault}
    for fewer in (1, 2, 3, 6):
        if broken(World(seed, without=without, processes=fewer), steps):
            processes = fewer
            break
    world = World(seed, without=without, processes=processes)
    said = broken(world, steps)
    needed = ", ".join(sorted(FAULTS.keys() - without)) or "none"
    about = rf"\b({'|'.join(re.findall(r'[jw]?[0-9]+', said))})\b|replica|clock|store|faults"
    told = [line for line in world.trace if re.search(about, line)][-LINES:]
    head = f"seed {seed}, step {world.steps}, {processes} processes, faults: {needed}"
    return "\n".join([head, *told, said])


def _end(fleet: ShardFleet, said: str) -> str:
    head = f"seed {fleet.seed}, step {fleet.steps}, limits: {fleet.limits}"
    return "\n".join([head, *[*fleet.trace][-LINES:], said])


def main() -> int:
    """Play for the given seconds; 1: a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("seconds", type=float, nargs="?", default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--shards", action="store_true", help="fleets over several shards")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each seed")
    options = parser.parse_args()
    logging.disable()
    until, seed, starts = time.monotonic() + options.seconds, options.seed, 0
    while time.monotonic() < until:
        world = ShardFleet(seed) if options.shards else World(seed)
        if said := broken(world, options.steps):
            told = page(seed, options.steps) if isinstance(world, World) else _end(world, said)
            print(told)  # noqa: T201
            return 1
        seed, starts = seed + 1, starts + len(world.fences)
    steps = (seed - options.seed) * options.steps
    seeds = f"seeds {options.seed} to {seed - 1}"
    print(f"{seeds}: {steps} steps among faults, {starts} starts, no promise broken")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
