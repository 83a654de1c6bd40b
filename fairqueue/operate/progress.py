"""How long operations report their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Progress = Callable[[int], object]
"""Called after each step of a long operation, with the number of jobs in that step."""


def ignore(_: int) -> None:
    """Show no progress."""


def counted_steps(steps: Iterator[int], progress: Progress) -> int:
    """Take all steps; return the number of jobs."""
    total = 0
    for done in steps:
        total += done
        progress(done)
    return total
