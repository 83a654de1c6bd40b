"""Asks each kind of pool whether it still has a run that it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from celery.concurrency.solo import TaskPool as SoloPool


def run_is_over(pool: Any, result: Any) -> Callable[[], bool] | None:
    """A function that asks the pool, from any thread; None: this pool cannot be asked.

    ``result`` is what the pool returned when it was given the run, just now.
    """
    future = getattr(result, "f", None)  # threads
    if future is not None:
        return future.done  # type: ignore[no-any-return]
    if hasattr(result, "_cache"):
        known = ref(result)
        return lambda: _is_over_in_prefork(known())
    if isinstance(pool, SoloPool):
        return lambda: True  # it returns when the run is over
    greenlet = _newest_greenlet(pool) if result is None else result
    return None if greenlet is None else lambda: bool(getattr(greenlet, "dead", False))


def _is_over_in_prefork(result: Any) -> bool:
    return result is None or bool(result.ready()) or result._job not in result._cache  # noqa: SLF001


def _newest_greenlet(pool: Any) -> Any:
    """The one that was just started: the eventlet pool does not return it."""
    greenlets = getattr(pool, "_pool_map", None) or {}
    return next(reversed(greenlets.values()), None)
