"""The view of both runs, while they are in progress and as the closing report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fairqueue.demo._starts import COLOURS, FLOOD, SMALL, Run, percentile

CELLS = 60


def view(runs: Sequence[Run]) -> Group:
    """Waits and positions of each workspace, and the order of starts so far."""
    table = Table("\nworkspace", box=SIMPLE_HEAD, pad_edge=False)
    for run in runs:
        for name in (f"{run.title}\nstarts no.", "wait\np50", "wait\np99"):
            table.add_column(name, justify="right", no_wrap=True)
    for name, colour in COLOURS.items():
        cells = (cell for run in runs for cell in _cells(run, name))
        table.add_row(Text(name, style=colour), *cells)
    head = "Order of starts, first to last (░ is the flood):"
    return Group(table, head, *map(_order, runs))


def _cells(run: Run, workspace: str) -> tuple[str, str, str]:
    if not (waits := run.waits(workspace)):
        return "none", "–", "–"
    p50, p99 = percentile(waits, 0.5), percentile(waits, 0.99)
    positions = run.positions(workspace)
    return f"{positions[0]:,}–{positions[-1]:,}", f"{p50:.2f} s", f"{p99:.2f} s"


def _order(run: Run) -> Text:
    """One line, which fills as jobs start. A cell has the colour of a small workspace in it."""
    line = Text(f"{run.title:>14} ")
    for cell in range(CELLS):
        part = run.starts[cell * run.jobs // CELLS : (cell + 1) * run.jobs // CELLS]
        small = next((start.workspace for start in part if start.workspace != FLOOD), None)
        mark = "█" if small else "░" if part else " "
        line.append(mark, style=COLOURS[small or FLOOD])
    return line


def summary(runs: Sequence[Run]) -> Iterator[Text]:
    """Errors, and the median waits of the small workspaces side by side."""
    for run in runs:
        if len(run.starts) < run.jobs:
            yield Text(f"{run.title}: out of time after {len(run.starts):,} of {run.jobs:,} jobs.")
        if again := len(run.starts) - len(
            {(start.workspace, start.number) for start in run.starts}
        ):
            yield Text(f"{run.title}: {again:,} jobs started more than once.", style="bold red")
    found = {run.title: waits for run in runs if (waits := run.waits(*SMALL))}
    if len(found) == len(runs):
        medians = (f"{percentile(waits, 0.5):.2f} s on {title}" for title, waits in found.items())
        yield Text(f"Median wait of the small workspaces: {' → '.join(medians)}.", style="bold")
