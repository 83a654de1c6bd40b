"""The command line of a benchmark."""

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
    """``turns``: how often each side runs; None: the benchmark's default."""

    turns: int | None = None
    smoke: bool = False
    """Tiny numbers, to check that the benchmark works."""
    same: bool = False
    """Stock against stock, to measure the noise of the machine."""
    scale: float | None = None
    """Size of the states of ``long_scripts``, 1 for those of its table; None: its default."""

    def turns_of(self, full: int) -> int:
        """Return how often each side runs."""
        return self.turns or (2 if self.smoke else full)

    def size(self, full: T, smoke: T) -> T:
        """Return the full size, or the smaller one of a smoke run."""
        return smoke if self.smoke else full


Measure = Callable[[Options, Progress], Report]


def read(arguments: Sequence[str] | None = None) -> tuple[Options, argparse.Namespace]:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, help="how often each side runs")
    parser.add_argument("--smoke", action="store_true", help="tiny numbers, takes seconds")
    parser.add_argument("--same", action="store_true", help="stock against stock: the noise")
    parser.add_argument("--scale", type=float, help="long_scripts: the size of its states; 1")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--only", default="", help="run.py only: names, comma-separated")
    given = parser.parse_args(arguments)
    options = Options(turns=given.turns, smoke=given.smoke, same=given.same, scale=given.scale)
    return options, given


def main(measure: Measure) -> None:
    """Run one benchmark as a script."""
    options, given = read()
    with Progress() as progress:
        report = measure(options, progress)
    if given.json:
        print(json.dumps(as_json(report), indent=1))
    else:
        show(report)
