"""The live view: a row per workspace, a progress bar per broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from fairqueue.demo._figures import Figures, figures
from fairqueue.demo._ledger import Start
from fairqueue.demo._load import Load


class LiveView:
    """Shows both runs while they are in progress, or once at the end without a terminal."""

    def __init__(self, console: Console, load: Load, titles: Sequence[str]) -> None:
        self._load = load
        self._starts: dict[str, Sequence[Start]] = dict.fromkeys(titles, ())
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(40), MofNCompleteColumn(), console=console
        )
        self._bars: Mapping[str, TaskID] = {
            title: self._progress.add_task(title, total=load.jobs) for title in titles
        }
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._render)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, title: str, starts: Sequence[Start]) -> None:
        """Update one run."""
        self._starts[title] = tuple(starts)
        self._progress.update(self._bars[title], completed=len(starts))

    def _render(self) -> Group:
        found = {title: figures(starts) for title, starts in self._starts.items()}
        return Group(self._table(found), self._progress)

    def _table(self, found: Mapping[str, Mapping[str, Figures]]) -> Table:
        table = Table("\nworkspace", "\njobs", box=SIMPLE_HEAD, pad_edge=False)
        for title in found:
            for name in (f"{title}\nstarted", "wait\np50", "wait\np99"):
                table.add_column(name, justify="right", no_wrap=True)
        for customer in self._load.customers:
            cells = [cell for of_run in found.values() for cell in _cells(of_run, customer.name)]
            table.add_row(Text(customer.name), f"{customer.jobs:,}", *cells)
        return table


def _cells(found: Mapping[str, Figures], workspace: str) -> tuple[str, str, str]:
    own = found.get(workspace)
    return (f"{own.started:,}", f"{own.p50:.1f} s", f"{own.p99:.1f} s") if own else ("0", "–", "–")
