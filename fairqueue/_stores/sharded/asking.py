"""Asks several shards; a shard that is away does not hide the answers of the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from math import inf
from typing import TypeVar

from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.store import Store
from fairqueue.errors import StoreUnavailable

T = TypeVar("T")

PROBED_QUEUE = "probe"  # any name


class Errors:
    """Errors of shards, and the silent servers: their other shards are not asked either."""

    def __init__(self) -> None:
        self.found: list[Exception] = []
        self.silent: set[str] = set()

    def add(self, shard: Store, error: Exception) -> None:
        self.found.append(error)
        if isinstance(error, StoreUnavailable) and not isinstance(error, WorkspaceMoves):
            self.silent.add(shard.engine.server)

    def raise_first(self) -> None:
        """Raise the first one, if there is any."""
        if self.found:
            raise self.found[0]


def answers(shards: Iterable[Store], ask: Callable[[Store], T], errors: Errors) -> Iterator[T]:
    """Ask each shard in turn; collect failures in ``errors`` and go on."""
    for shard in shards:
        if shard.engine.server not in errors.silent:
            try:
                answer = ask(shard)
            except Exception as error:  # noqa: BLE001 - the caller raises the first one
                errors.add(shard, error)
            else:
                yield answer


def each(shards: Iterable[Store], ask: Callable[[Store], T]) -> list[T]:
    """Ask every shard, then raise the first error, so that one failure does not skip the rest."""
    errors = Errors()
    found = list(answers(shards, ask, errors))
    errors.raise_first()
    return found


def first(shards: Iterable[Store], ask: Callable[[Store], T], *, nothing: Collection[T]) -> T:
    """Return the first answer that is not ``nothing``.

    Without one, raise the first error; without an error, return the last answer.
    """
    errors = Errors()
    for answer in answers(shards, ask, errors):
        if answer not in nothing:
            return answer
    errors.raise_first()
    return answer


def refuse_if_full(shards: Iterable[Store]) -> None:
    """Raise StoreUnavailable if none of them has memory for a job; changes nothing."""

    def push(shard: Store) -> None:
        shard.engine.command("RPUSHX", shard.engine.keys.prefix, 1)  # no key has this name

    first(shards, push, nothing=())


def taken(
    shards: Iterable[Store], take: Callable[[Store, float], list[T]], *, n: float = inf
) -> list[T]:
    """Take up to ``n`` from one shard after another.

    An error is raised only if nothing was taken: what was taken is reserved for this caller, and
    would be lost to it. The next call meets the error again.
    """
    found: list[T] = []
    errors = Errors()
    for some in answers(shards, lambda shard: take(shard, n - len(found)), errors):
        found.extend(some)
        if len(found) >= n:
            break
    if not found:
        errors.raise_first()
    return found
