"""The results of a benchmark: ratios with spread and target, and the costs in Redis."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

WIDTH = 118


@dataclass(frozen=True)
class Target:
    """A bound of the ratio, or with ``absolute`` of our own figure."""

    at_least: float | None = None
    at_most: float | None = None
    absolute: bool = False

    def met_by(self, value: float) -> bool:
        """Whether the value meets the target."""
        if self.at_least is not None:
            return operator.ge(value, self.at_least)
        return self.at_most is None or operator.le(value, self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"


@dataclass(frozen=True)
class Row:
    """One figure of both sides, turn by turn. The result of each side is its median."""

    what: str
    unit: str
    ours: Sequence[float]
    peer: Sequence[float]
    target: Target | None = None

    @property
    def ratio(self) -> float:
        """Our median divided by the peer's."""
        return median(self.ours) / median(self.peer)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of two neighbouring turns."""
        ratios = [own / other for own, other in zip(self.ours, self.peer, strict=True)]
        return min(ratios), max(ratios)

    @property
    def judged(self) -> float:
        """The value that the target applies to."""
        return median(self.ours) if self.target and self.target.absolute else self.ratio

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None: there is no target."""
        return None if self.target is None else self.target.met_by(self.judged)


@dataclass(frozen=True)
class Cost:
    """What Redis spent, by its own count: microseconds per job, and per call of a command."""

    phase: str
    side: str
    per_job: float
    """Microseconds of top-level commands for each job."""
    commands: str
    """Command, calls per job, microseconds per call."""


@dataclass(frozen=True)
class Report:
    """All results of one benchmark."""

    title: str
    ours: str
    peer: str
    rows: Sequence[Row]
    costs: Sequence[Cost] = ()
    notes: Sequence[str] = field(default=())


def as_json(report: Report) -> dict[str, Any]:
    """Return the report with medians and ratios."""
    found = asdict(report)
    for row, plain in zip(report.rows, found["rows"], strict=True):
        plain["medians"] = {"ours": median(row.ours), "peer": median(row.peer)}
        plain["ratio"], plain["spread"], plain["met"] = row.ratio, row.spread, row.met
    return found


def show(report: Report, console: Console | None = None) -> None:
    """Print the report as tables."""
    console = console or Console(width=WIDTH, highlight=False, soft_wrap=False)
    console.print(f"\n[bold]{report.title}[/bold]")
    console.print(_ratios(report))
    if report.costs:
        console.print(_costs(report.costs))
    for note in report.notes:
        console.print(f"  {note}")


def _ratios(report: Report) -> Table:
    table = Table("", "unit", box=SIMPLE_HEAD, pad_edge=False)
    for name in (report.ours, report.peer, "ratio", "of single turns", "target", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for row in report.rows:
        low, high = row.spread
        target = str(row.target or "")
        absolute = bool(row.target and row.target.absolute)
        figures = (_figure(median(row.ours)), _figure(median(row.peer)), f"{row.ratio:.2f}")
        spread = f"{low:.2f}–{high:.2f}"
        unit = f" {row.unit}" if absolute and target else ""
        table.add_row(row.what, row.unit, *figures, spread, target + unit, _verdict(row))
    return table


def _verdict(row: Row) -> str:
    if row.met is None:
        return ""
    return "met" if row.met else "[bold]missed[/bold]"


def _figure(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _costs(costs: Sequence[Cost]) -> Table:
    table = Table("Redis, by its own count", "side", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("µs per job", justify="right")
    table.add_column("command: calls per job × µs per call", overflow="fold")
    for cost in costs:
        table.add_row(cost.phase, cost.side, f"{cost.per_job:.1f}", cost.commands)
    return table
