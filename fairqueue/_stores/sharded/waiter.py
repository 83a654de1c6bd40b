"""Waits for the tokens of several shards behind one descriptor."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from fairqueue._stores.sharded.rest import Rest
from fairqueue._stores.waiter import SLACK_SECONDS, Waiter
from fairqueue._threads import native_select
from fairqueue.errors import StoreUnavailable


class _Epoll:
    """Descriptors that are watched, by one that is readable when one of them is."""

    def __init__(self) -> None:
        self._epoll: Any = native_select("epoll")()
        self.fileno, self.close = self._epoll.fileno, self._epoll.close

    def add(self, fd: int) -> None:
        """Watch this one."""
        self._epoll.register(fd, select.POLLIN)

    def remove(self, fd: int) -> None:
        """Watch it no more."""
        self._epoll.unregister(fd)

    def readable(self) -> set[int]:
        """Return those that are readable now."""
        return {fd for fd, _ in self._epoll.poll(0)}


class _Kqueue:
    """The same on macOS and BSD."""

    def __init__(self) -> None:
        self._queue: Any = native_select("kqueue")()
        self._event: Any = native_select("kevent")
        self.fileno, self.close = self._queue.fileno, self._queue.close

    def add(self, fd: int) -> None:
        """Watch this one."""
        self._change(fd, "KQ_EV_ADD")

    def remove(self, fd: int) -> None:
        """Watch it no more."""
        self._change(fd, "KQ_EV_DELETE")

    def _change(self, fd: int, flag: str) -> None:
        kind, how = native_select("KQ_FILTER_READ"), native_select(flag)
        self._queue.control([self._event(fd, kind, how)], 0)

    def readable(self) -> set[int]:
        """Return those that are readable now."""
        return {int(event.ident) for event in self._queue.control(None, 64, 0)}


def _watch() -> _Epoll | _Kqueue:
    return _Epoll() if native_select("epoll") else _Kqueue()


class ShardedWaiter(Waiter):
    """One waiter for each shard; the wait is over when the first of them is.

    A shard that does not answer is not waited for, and rests.
    """

    def __init__(
        self, waiters_from: Callable[[int], Sequence[Waiter]], on_woken: Callable[[int], object]
    ) -> None:
        """``waiters_from`` makes those of the shards from this number on; there may be new ones."""
        self._waiters_from, self._on_woken = waiters_from, on_woken
        self._waiters: list[Waiter] = []
        self._rests: list[Rest] = []
        self._grow()
        self._armed: dict[int, int] = {}
        self._watch: _Epoll | _Kqueue | None = None
        self.answered_by = 0.0

    def arm(self, seconds: float) -> None:
        """Start waiting on all shards that answer; raise if none does."""
        if self._armed:
            return
        away = None
        self.answered_by = time.monotonic() + seconds + SLACK_SECONDS
        self._grow()
        numbers = range(len(self._waiters))
        with self._whole_or_closed():
            for number in [n for n in numbers if self._rests[n].seconds_left <= 0] or numbers:
                waiter, rest = self._waiters[number], self._rests[number]
                try:
                    waiter.arm(seconds)
                    fd = waiter.fileno()
                except StoreUnavailable as error:
                    away = error
                    rest.failed()
                else:
                    rest.answered()
                    self._watched().add(fd)
                    self._armed[fd] = number
        if away is not None and not self._armed:
            raise away

    def _grow(self) -> None:
        for waiter in self._waiters_from(len(self._waiters)):
            self._waiters.append(waiter)
            self._rests.append(Rest())

    @contextmanager
    def _whole_or_closed(self) -> Iterator[None]:
        """An interrupt in the middle leaves no shard half armed."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _watched(self) -> _Epoll | _Kqueue:
        if self._watch is None:
            self._watch = _watch()
        return self._watch

    def fileno(self) -> int:
        """The one that watches those of all shards."""
        return int(self._watched().fileno())

    def collect(self) -> bool:
        """End the wait on all shards at the same time; True: one of them has woken us."""
        ready = self._watched().readable()
        armed, self._armed = self._armed, {}
        away: list[StoreUnavailable] = []
        is_woken = False
        with self._whole_or_closed():
            for fd, number in armed.items():
                self._watched().remove(fd)
                if fd not in ready:
                    with self._noting(number, away):
                        self._waiters[number].begin_disarm()
            for fd, number in armed.items():
                waiter = self._waiters[number]
                with self._noting(number, away):
                    if waiter.collect() if fd in ready else waiter.disarm():
                        self._on_woken(number)
                        is_woken = True
        if away and len(away) == len(armed):
            raise away[-1]
        return is_woken

    @contextmanager
    def _noting(self, number: int, away: list[StoreUnavailable]) -> Iterator[None]:
        """Let a shard rest that does not answer."""
        try:
            yield
        except StoreUnavailable as error:
            self._rests[number].failed()
            away.append(error)

    def disarm(self) -> bool:
        """End the wait before its time."""
        return self.collect()

    def wait(self, seconds: float) -> bool:
        """Arm, block and collect."""
        self.arm(seconds)
        select.select([self.fileno()], [], [], max(0.0, self.answered_by - time.monotonic()))
        return self.collect()

    def close(self) -> None:
        """Stop waiting on all shards."""
        self._armed = {}
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        with ExitStack() as stack:  # one that fails keeps no other open
            for waiter in self._waiters:
                stack.callback(waiter.close)
