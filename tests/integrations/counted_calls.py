"""Counts what a queue's store is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairqueue import FairQueue


@contextmanager
def calls_of(queue: FairQueue) -> Iterator[Counter[str]]:
    """Count the operations that its store runs."""
    engine, calls = queue.store.shards[0].engine, Counter[str]()
    run = engine._run

    def counted(operation: str, values: Any) -> Any:
        calls[operation] += 1
        return run(operation, values)

    engine._run = counted  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        engine._run = run  # type: ignore[method-assign]
