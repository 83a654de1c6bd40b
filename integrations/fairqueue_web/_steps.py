"""A response's body whose steps run in the request's workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any


class Steps:
    """Iterates over a body; each step runs inside a context, and the end is called once.

    A body may be a generator that publishes while the server sends it.
    """

    def __init__(
        self,
        body: Iterable[bytes],
        inside: Callable[[], AbstractContextManager[Any]],
        end: Callable[[], object],
    ) -> None:
        self._body, self._steps = body, iter(body)
        self._inside, self._end = inside, end
        self._is_over = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._inside():
            return next(self._steps)

    def close(self) -> None:
        """Close the body, as a server does at the end of a response, however it ends."""
        if self._is_over:
            return
        self._is_over = True
        try:
            with self._inside():
                getattr(self._body, "close", nothing)()
        finally:
            self._end()


def nothing() -> None:
    """Do nothing at the end."""
