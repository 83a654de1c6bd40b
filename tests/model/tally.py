"""Counts the moves of a play and the limits that it set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any

from hypothesis import stateful

from fairqueue import Limits

MOVES: Counter[str] = Counter()
LIMITS: Counter[str] = Counter()
"""By scope and name, such as ``workspace: rate``; removed limits are not counted."""

Move = Callable[..., None]


def rule(**strategies: Any) -> Callable[[Move], Move]:
    """Declare a Hypothesis rule that is counted by its name."""

    def declare(move: Move) -> Move:
        @wraps(move)
        def counted(*args: Any, **kwargs: Any) -> None:
            MOVES[move.__name__] += 1
            move(*args, **kwargs)

        declared: Move = stateful.rule(**strategies)(counted)  # type: ignore[no-untyped-call]
        return declared

    return declare


def note_limits(scope: str, limits: Limits | None) -> None:
    """Count limits that were set, at runtime or by a configuration."""
    if limits is not None:
        of = {field.name: getattr(limits, field.name) for field in fields(limits)}
        LIMITS.update(f"{scope}: {name}" for name, value in of.items() if value is not None)


def rarest(most: int) -> dict[str, int]:
    """Return the moves and limits that occurred fewer than ``most`` times."""
    return {name: count for name, count in (MOVES + LIMITS).items() if count < most}
