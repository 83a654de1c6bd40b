"""Storms of faults at length, judged by a ledger outside the broker: ``make storm``.

python -m tests.storm [--faults 300] [--jobs N] [--seed N] [--keep FOLDER] [CELL ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.storm.storm import CELLS, plan_of, play


def main(arguments: Sequence[str]) -> int:
    """Play the chosen cells one after the other; 1: something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL", help=", ".join(CELLS))
    parser.add_argument("--faults", type=int, default=300, help="in each cell (300)")
    parser.add_argument("--jobs", type=int, default=0, help="at least this many, mostly short")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all chances")
    parser.add_argument("--keep", type=Path, help="a folder for logs and ledgers")
    chosen = parser.parse_args(arguments)
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="fairqueue-storm-"))
    bad = 0
    for cell in chosen.cells or CELLS:
        place = folder / cell
        place.mkdir(parents=True)
        plan = plan_of(cell, faults=chosen.faults, seed=chosen.seed, jobs=chosen.jobs)
        verdict = play(plan, place, progress)
        bad += not verdict.is_good
        print(f"\r{cell} (seed {chosen.seed}): {verdict}")  # noqa: T201
    if bad:
        print(f"logs and ledgers: {folder}")  # noqa: T201
    return 1 if bad else 0


def progress(said: str) -> None:
    """Show how far it is, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{said}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
