"""Sides that take turns, so that whatever else the machine does hits both alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from _bench.options import Options
from _bench.progress import Work
from fairqueue.testing import EmbeddedServer, embedded_redis

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")

OURS, STOCK = "fairqueue://", "redis://"


@dataclass(frozen=True)
class Side:
    """Who runs: its name in the table, and its broker."""

    name: str
    url: str


def sides_on(
    server: EmbeddedServer,
    options: Options,
    *,
    peer_on: EmbeddedServer | None = None,
    **settings: str,
) -> tuple[Side, Side]:
    """Ours and the peer, on two databases of one server; over TCP, as most users have it."""
    query = "&".join(f"{name}={value}" for name, value in settings.items())
    own = f"{server.tcp_address}/0"
    peer = Side(STOCK, f"redis://{(peer_on or server).tcp_address}/1")
    if options.same:
        return Side("redis://, too", f"redis://{own}"), peer
    return Side(OURS, f"fairqueue://{own}" + (f"?{query}" if query else "")), peer


@contextmanager
def own_server() -> Iterator[EmbeddedServer]:
    """A Redis of the benchmark's own, without persistence."""
    with embedded_redis(tcp=True) as server:
        yield server


def alternate(
    sides: Sequence[S], turns: int, work: Work, run: Callable[[S], T]
) -> dict[S, list[T]]:
    """Let each side run so many times, one after the other; who begins changes every time.

    One more turn of each goes before, which does not count.
    """
    found: dict[S, list[T]] = {side: [] for side in sides}
    for turn in range(turns + 1):
        for side in sides if turn % 2 else reversed(sides):
            figure = run(side)
            if turn:
                found[side].append(figure)
            work.step()
    return found
