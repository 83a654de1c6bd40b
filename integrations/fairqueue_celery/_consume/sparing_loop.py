"""The worker's event loop, without the work that kombu and Celery's pool repeat at each turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

TICK_SECONDS = 0.1
"""How often kombu looks after its connections, where it polls no plain queue."""


class SparingLoop:
    """The loop as kombu's Redis transport gets it."""

    def __init__(self, loop: Any, cycle: Any) -> None:
        self._loop = loop
        if not isinstance(loop.poller, SparingPoller):
            loop.poller = SparingPoller(loop.poller)
        self.on_tick = SparingTicks(loop.on_tick, cycle)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class SparingTicks:
    """What kombu does at each turn: it subscribes and polls its connections, if they are new.

    A plain queue is asked again after each of its messages, so it needs each turn.
    """

    def __init__(self, ticks: set[Callable[[], object]], cycle: Any) -> None:
        self._ticks, self._cycle = ticks, cycle
        self._spared: dict[Callable[[], object], Callable[[], object]] = {}

    def add(self, act: Callable[[], object]) -> None:
        due = 0.0

        def act_if_due() -> None:
            nonlocal due
            if (now := time.monotonic()) >= due:
                act()
                polls = any(channel.active_queues for channel in self._cycle._channels)  # noqa: SLF001
                due = now if polls else now + TICK_SECONDS

        self._spared[act] = act_if_due
        self._ticks.add(act_if_due)

    def remove(self, act: Callable[[], object]) -> None:
        self._ticks.remove(self._spared.pop(act))


class SparingPoller:
    """Takes no descriptor out that is out: the system call would fail, and raise.

    At each turn Celery's pool takes out the pipe of each process that gets no job.
    """

    def __init__(self, poller: Any) -> None:
        self._poller = poller
        self._out = set[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def register(self, fd: Any, events: int) -> None:
        self._poller.register(fd, events)
        self._out.discard(fd if isinstance(fd, int) else fd.fileno())

    def unregister(self, fd: Any) -> None:
        if fd not in self._out:
            self._poller.unregister(fd)
            if isinstance(fd, int):  # a socket's own number may be used again
                self._out.add(fd)
