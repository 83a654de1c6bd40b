"""Progress bars, if standard error is a terminal."""

from __future__ import annotations

from types import TracebackType

from rich import progress as bars
from rich.console import Console


class Progress:
    """One bar per long task; each disappears when its task is done."""

    def __init__(self) -> None:
        columns = (
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
        )
        self._bars = bars.Progress(*columns, console=Console(stderr=True), transient=True)

    def start(self, what: str, steps: int) -> Work:
        """Begin a task with this many steps."""
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
    """The bar of one task."""

    def __init__(self, shown: bars.Progress, task: bars.TaskID) -> None:
        self._bars, self._task = shown, task

    def step(self, steps: int = 1) -> None:
        """Advance the bar."""
        self._bars.advance(self._task, steps)

    def done(self) -> None:
        """Remove the bar."""
        self._bars.remove_task(self._task)
