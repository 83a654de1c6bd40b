"""Sides that take turns, so that noise of the machine affects both equally."""

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
    """One side: its name in the table, and its broker URL."""

    name: str
    url: str


def sides_on(
    server: EmbeddedServer,
    options: Options,
    *,
    peer_on: EmbeddedServer | None = None,
    **settings: str,
) -> tuple[Side, Side]:
    """Both sides, on two databases of one server, over TCP like most deployments."""
    query = "&".join(f"{name}={value}" for name, value in settings.items())
    own = f"{server.tcp_address}/0"
    peer = Side(STOCK, f"redis://{(peer_on or server).tcp_address}/1")
    if options.same:
        return Side("redis://, too", f"redis://{own}"), peer
    return Side(OURS, f"fairqueue://{own}" + (f"?{query}" if query else "")), peer


@contextmanager
def own_server() -> Iterator[EmbeddedServer]:
    """A Redis server for the benchmark only, without persistence."""
    with embedded_redis(tcp=True) as server:
        yield server


def alternate(
    sides: Sequence[S], turns: int, work: Work, run: Callable[[S], T]
) -> dict[S, list[T]]:
    """Run each side ``turns`` times in alternation; the side that begins alternates too.

    One additional turn of each side runs first and is not counted.
    """
    found: dict[S, list[T]] = {side: [] for side in sides}
    for turn in range(turns + 1):
        for side in sides if turn % 2 else reversed(sides):
            figure = run(side)
            if turn:
                found[side].append(figure)
            work.step()
    return found
