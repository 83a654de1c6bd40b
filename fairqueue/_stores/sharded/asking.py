"""Ways to ask several shards, which keep one that is away from hiding what the others answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from fairqueue._stores.engine import WorkspaceMoves
from fairqueue._stores.store import Store
from fairqueue.errors import StoreUnavailable

T = TypeVar("T")

PROBED_QUEUE = "probe"  # any name will do


class Errors:
    """What went wrong at some shards, and the servers that do not answer.

    The other shards of such a server would take as long not to answer.
    """

    def __init__(self) -> None:
        self.found: list[Exception] = []
        self.silent: set[str] = set()

    def are_of(self, shard: Store) -> bool:
        """Whether its server is silent."""
        return shard.engine.server in self.silent

    def add(self, shard: Store, error: Exception) -> None:
        """Note what a shard raised."""
        self.found.append(error)
        if isinstance(error, StoreUnavailable) and not isinstance(error, WorkspaceMoves):
            self.silent.add(shard.engine.server)

    def raise_first(self) -> None:
        """Raise the first one, if there is any."""
        if self.found:
            raise self.found[0]


def answers(shards: Iterable[Store], ask: Callable[[Store], T], errors: Errors) -> Iterator[T]:
    """Ask one shard after the other, also behind one that fails; add what fails to ``errors``."""
    for shard in shards:
        if not errors.are_of(shard):
            try:
                answer = ask(shard)
            except Exception as error:  # noqa: BLE001 - the caller raises the first one
                errors.add(shard, error)
            else:
                yield answer


def each(shards: Iterable[Store], ask: Callable[[Store], T]) -> list[T]:
    """Ask every shard; the first error is raised when all were asked.

    So a shard that is away does not keep the others from what must be done on each of them.
    """
    errors = Errors()
    found = list(answers(shards, ask, errors))
    errors.raise_first()
    return found


def first(shards: Iterable[Store], ask: Callable[[Store], T], *, nothing: Collection[T]) -> T:
    """Return the first answer that is not ``nothing``; without one the first error is raised.

    Where there is no error, either, return what the last one answered.
    """
    errors = Errors()
    for answer in answers(shards, ask, errors):
        if answer not in nothing:
            return answer
    errors.raise_first()
    return answer


def any_of(shards: Iterable[Store], ask: Callable[[Store], object]) -> None:
    """Ask one shard after the other until one answers; without one the first error is raised."""
    errors = Errors()
    for _ in answers(shards, ask, errors):
        return
    errors.raise_first()


def ask_anything(shards: Iterable[Store]) -> None:
    """Raise StoreUnavailable if none of them answers."""
    any_of(shards, lambda shard: shard.is_plain(PROBED_QUEUE))


def refuse_if_full(shards: Iterable[Store]) -> None:
    """Raise StoreUnavailable if none of them has memory for a job; changes nothing."""

    def push(shard: Store) -> None:
        shard.engine.command("RPUSHX", shard.engine.keys.prefix, 1)  # no key is named so

    any_of(shards, push)


def taken(shards: Iterable[Store], take: Callable[[Store, int], list[T]], *, n: int) -> list[T]:
    """Take up to ``n`` from one shard after the other.

    An error is raised only if nothing was taken: what was taken is reserved for this caller, and
    would be left alone until that ends. The next call meets the error again.
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
