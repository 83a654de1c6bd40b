"""How a benchmark is to be run, and by whose hand: its command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from _bench.progress import Progress
from _bench.report import Report, as_json, show

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """``turns``: how often each side runs; None: as the benchmark has it."""

    turns: int | None = None
    smoke: bool = False
    """Tiny numbers, to see that it works."""
    same: bool = False
    """Stock against stock: what the machine's noise alone makes of a ratio."""

    def turns_of(self, full: int) -> int:
        """How often each side runs."""
        return self.turns or (2 if self.smoke else full)

    def size(self, full: T, smoke: T) -> T:
        """A number of messages, workspaces and so on."""
        return smoke if self.smoke else full


Measure = Callable[[Options, Progress], Report]


def read(arguments: Sequence[str] | None = None) -> tuple[Options, argparse.Namespace]:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, help="how often each side runs")
    parser.add_argument("--smoke", action="store_true", help="tiny numbers, seconds in all")
    parser.add_argument("--same", action="store_true", help="stock against stock: the noise")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", default="", help="run.py: names, separated by commas")
    given = parser.parse_args(arguments)
    return Options(turns=given.turns, smoke=given.smoke, same=given.same), given


def main(measure: Measure) -> None:
    """Run one benchmark as a script."""
    options, given = read()
    with Progress() as progress:
        report = measure(options, progress)
    if given.json:
        print(json.dumps(as_json(report), indent=1))
    else:
        show(report)
