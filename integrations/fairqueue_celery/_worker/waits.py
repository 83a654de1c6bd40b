"""Follows what a running task waits for: the results of others, in ``get`` and ``join``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any

from celery.result import AsyncResult, ResultSet

from fairqueue_celery._publish.publish import child_waits


@cache  # a test's process may have several workers
def follow() -> None:
    """Follow all waits of this process, and of those that it forks."""
    _follow(AsyncResult, "get", lambda result: [result.id])
    for join in ("join", "join_native"):
        _follow(ResultSet, join, lambda results: [each.id for each in results.results])


def _follow(kind: Any, name: str, ids_of: Callable[[Any], Iterable[str]]) -> None:
    wait = getattr(kind, name)

    @wraps(wait)
    def followed(self: Any, *args: Any, **options: Any) -> Any:
        with child_waits.waiting(ids_of(self)):
            return wait(self, *args, **options)

    setattr(kind, name, followed)
