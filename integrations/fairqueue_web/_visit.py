"""A request that was let in: what it publishes, also while its body is sent, and its end."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import fairqueue


def nothing() -> None:
    """Do nothing at the end."""


@dataclass(frozen=True)
class Visit:
    """The workspace of a request, and what frees its place."""

    workspace: str | None
    end: Callable[[], object] = nothing

    def inside(self) -> AbstractContextManager[None]:
        """Publish to its workspace inside the block; None: as without it."""
        return nullcontext() if self.workspace is None else fairqueue.workspace(self.workspace)

    @contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """An exception in the block ends the visit, and is raised."""
        try:
            yield
        except BaseException:
            self.end()
            raise

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The same, and it ends with the block."""
        try:
            with self.inside():
                yield
        finally:
            self.end()


class Steps:
    """Iterates over a body; each step runs inside its visit.

    The visit ends when the body is closed, or raises: not every server closes it then.
    A body may be a generator that publishes while the server sends it.
    """

    def __init__(self, body: Iterable[bytes], visit: Visit) -> None:
        self._body, self._steps = body, iter(body)
        self._visit, self._is_over = visit, False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._visit.unless_it_fails(), self._visit.inside():
            for step in self._steps:
                return step
        raise StopIteration

    def close(self) -> None:
        """Close the body, as a server does at the end of a response, however it ends."""
        if self._is_over:
            return
        self._is_over = True
        with self._visit.whole():
            getattr(self._body, "close", nothing)()


class AsyncSteps:
    """The same for an asynchronous body."""

    def __init__(self, body: AsyncIterable[bytes], visit: Visit) -> None:
        self._steps, self._visit = aiter(body), visit

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with self._visit.unless_it_fails(), self._visit.inside():
            return await anext(self._steps)

    def close(self) -> None:
        """End the visit, as Django's close of the response does."""
        self._visit.end()
