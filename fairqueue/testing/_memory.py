"""A memory store that belongs to one test, and follows its clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fairqueue._utils import needs_extra
from fairqueue.errors import ConfigurationError


@contextmanager
def memory_url(clock: Callable[[], float]) -> Iterator[str]:
    """Yield the URL of a new ``memory://`` store whose time is this clock's.

    At the end of the block the store is forgotten, with all that is in it. ConfigurationError: the
    extra ``fairqueue[memory]`` is not installed.
    """
    with needs_extra("memory://", "memory", ConfigurationError):
        from fairqueue._stores.memory.engine import own_database  # noqa: PLC0415 - Lua is an extra
    name = f"test-{secrets.token_hex(8)}"
    with own_database(name, clock=clock):
        yield f"memory://{name}"
