"""A progress bar on the terminal, and nothing where there is none."""

from __future__ import annotations

from types import TracebackType

from rich import progress as bars
from rich.console import Console


class Progress:
    """One bar per piece of long work; each is gone when its work is done."""

    def __init__(self) -> None:
        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
        )
        self._bars = bars.Progress(*columns, console=Console(stderr=True), transient=True)

    def start(self, what: str, steps: int) -> Work:
        """Begin a piece of work of so many steps."""
        return Work(self._bars, self._bars.add_task(what, total=steps))

    def __enter__(self) -> Progress:
        if self._bars.console.is_terminal:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()


class Work:
    """One bar."""

    def __init__(self, shown: bars.Progress, task: bars.TaskID) -> None:
        self._bars, self._task = shown, task

    def step(self, steps: int = 1) -> None:
        """So much more is done."""
        self._bars.advance(self._task, steps)

    def done(self) -> None:
        """All is done."""
        self._bars.remove_task(self._task)
