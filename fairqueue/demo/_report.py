"""The closing report: both brokers side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairqueue.demo._figures import Figures, figures, percentile
from fairqueue.demo._load import Load
from fairqueue.demo._run import Run

CELLS = 60
STYLES = ("blue", "red", "green", "magenta", "yellow", "cyan")


def report(console: Console, load: Load, runs: Sequence[Run]) -> None:
    """Print waits and start order per workspace, and a summary."""
    console.print()
    console.print(_table(load, runs))
    console.print("Order of starts, first to last (░ is the flood):")
    for run in runs:
        console.print(_strip(run, load))
    for line in _summary(load, runs):
        console.print(line)


def _table(load: Load, runs: Sequence[Run]) -> Table:
    table = Table("\nworkspace", box=SIMPLE_HEAD, pad_edge=False)
    for run in runs:
        for name in (f"{run.title}\nstarts no.", "wait\np50", "wait\np99"):
            table.add_column(name, justify="right", no_wrap=True)
    found = [figures(run.starts) for run in runs]
    for customer in load.customers:
        cells = [cell for of_run in found for cell in _cells(of_run.get(customer.name))]
        table.add_row(Text(customer.name), *cells)
    return table


def _cells(own: Figures | None) -> tuple[str, str, str]:
    if own is None:
        return "none", "–", "–"
    return f"{own.first_position:,}–{own.last_position:,}", f"{own.p50:.2f} s", f"{own.p99:.2f} s"


def _strip(run: Run, load: Load) -> Text:
    """The order of starts in one line. A cell has the colour of a small workspace in it."""
    names = [customer.name for customer in load.customers]
    line = Text(f"{run.title:>14} ")
    for cell in range(CELLS):
        part = run.starts[cell * load.jobs // CELLS : (cell + 1) * load.jobs // CELLS]
        small = next((start.workspace for start in part if start.workspace != load.big), None)
        line.append(*_mark(names, small, empty=not part))
    return line


def _mark(names: Sequence[str], small: str | None, *, empty: bool) -> tuple[str, str]:
    if small is None:
        return (" " if empty else "░"), "bright_black"
    return "█", STYLES[(names.index(small) - 1) % len(STYLES)]


def _summary(load: Load, runs: Sequence[Run]) -> Iterator[Text]:
    for run in runs:
        if not run.complete:
            yield Text(f"{run.title}: out of time after {len(run.starts):,} of {load.jobs:,} jobs.")
        distinct = {(start.workspace, start.number) for start in run.starts}
        if again := len(run.starts) - len(distinct):
            yield Text(f"{run.title}: {again:,} jobs started more than once.", style="bold red")
    medians = [_small_median(load, run) for run in runs]
    if len(runs) > 1 and None not in medians:
        waits = " → ".join(f"{m:.2f} s on {r.title}" for m, r in zip(medians, runs, strict=True))
        yield Text(f"Median wait of the small workspaces: {waits}.", style="bold")


def _small_median(load: Load, run: Run) -> float | None:
    waits = sorted(start.wait_seconds for start in run.starts if start.workspace != load.big)
    return percentile(waits, 0.5) if waits else None
