"""Kills of Redis primaries under load, judged by a ledger outside of them: ``make failover``.

python -m tests.failover [--kills 10] [--keep FOLDER] [--on cluster] [CELL ...]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.failover.play import KINDS, play
from tests.storm.__main__ import progress

CELLS = ("prefork-late", "threads-late", "dramatiq")


def main(arguments: Sequence[str]) -> int:
    """Play with a replica that confirms, and without; 1: something was lost with one."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL", help=", ".join(CELLS))
    parser.add_argument("--on", choices=KINDS, action="append", help="where the jobs are (all)")
    parser.add_argument("--kills", type=int, default=10, help="in each cell (10)")
    parser.add_argument("--keep", type=Path, help="a folder for logs and ledgers")
    chosen = parser.parse_args(arguments)
    folder = chosen.keep or Path(tempfile.mkdtemp(prefix="fairqueue-failover-"))
    bad = 0
    plays = itertools.product(chosen.on or KINDS, chosen.cells or CELLS, (1, 0))
    for kind, cell, least in plays:
        place = folder / f"{kind}-{cell}-{least}"
        place.mkdir(parents=True)
        found = play(cell, place, kind=kind, kills=chosen.kills, min_replicas=least, said=progress)
        bad += least > 0 and not found.is_good
        print(f"\r{kind}, {cell}, min_replicas={least}: {found}", flush=True)  # noqa: T201
    if bad:
        print(f"logs and ledgers: {folder}")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
