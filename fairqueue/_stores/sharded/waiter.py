"""Waits for the tokens of several shards behind one descriptor."""

from __future__ import annotations

import select
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from fairqueue._stores.breaker import CircuitBreaker
from fairqueue._stores.engine import Engine
from fairqueue._stores.sharded.shards import Shards
from fairqueue._stores.waiter import SLACK_SECONDS, Waiter
from fairqueue._threads import native_select
from fairqueue.errors import StoreUnavailable


class _Watch:
    """An epoll (on macOS and BSD a kqueue): one descriptor, readable when a watched one is."""

    def __init__(self) -> None:
        epoll = native_select("epoll")
        self._is_epoll = epoll is not None
        self._all: Any = (epoll or native_select("kqueue"))()
        self.fileno, self.close = self._all.fileno, self._all.close

    def watch(self, fd: int, *, is_on: bool = True) -> None:
        """Start or stop watching a descriptor."""
        if not self._is_epoll:
            kind, flag = "KQ_FILTER_READ", "KQ_EV_ADD" if is_on else "KQ_EV_DELETE"
            event: Any = native_select("kevent")
            self._all.control([event(fd, native_select(kind), native_select(flag))], 0)
        elif is_on:
            self._all.register(fd, select.POLLIN)
        else:
            self._all.unregister(fd)

    def readable(self) -> set[int]:
        """Return the watched descriptors that are readable now."""
        if self._is_epoll:
            return {fd for fd, _ in self._all.poll(0)}
        return {int(event.ident) for event in self._all.control(None, 64, 0)}


class ShardedWaiter(Waiter):
    """Waits on the shards of all clients until the first of them has a token.

    A server that does not answer is left out.
    """

    def __init__(
        self,
        store: Shards,
        queues: Sequence[str],
        refused: Container[str],
        on_woken: Callable[[int], object],
    ) -> None:
        self._store, self._queues, self._on_woken = store, queues, on_woken
        self._refused = refused
        self._waiters: list[Waiter] = []
        self._engines: list[list[Engine]] = []
        self._grow()
        self._armed: dict[int, int] = {}
        self._watch: _Watch | None = None
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
            for number in [n for n in numbers if self._breaker(n).seconds_left <= 0] or numbers:
                waiter, breaker = self._waiters[number], self._breaker(number)
                try:
                    waiter.arm(seconds)
                    fd = waiter.fileno()
                except StoreUnavailable as error:
                    away = error
                    breaker.failed()
                else:
                    breaker.answered()
                    self._watched().watch(fd)
                    self._armed[fd] = number
        if away is not None and not self._armed:
            raise away

    def _grow(self) -> None:
        known = sum(map(len, self._engines))
        together = defaultdict[object, list[Engine]](list)
        for shard in self._store.shards[known:]:
            together[shard.engine.connections].append(shard.engine)
        for first, *others in together.values():
            self._waiters.append(first.waiter(self._queues, self._refused, others))
            self._engines.append([first, *others])

    def _breaker(self, number: int) -> CircuitBreaker:
        return self._engines[number][0].breaker

    def _shard_of(self, number: int) -> int:
        """Return the shard whose token ended this wait."""
        taken, engines = self._waiters[number].taken, self._engines[number]
        found = (each.shard for each in engines if taken.startswith(each.keys.prefix))
        return next(found, engines[0].shard)

    @contextmanager
    def _whole_or_closed(self) -> Iterator[None]:
        """Close all waits if an interrupt leaves some half armed."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _watched(self) -> _Watch:
        if self._watch is None:
            self._watch = _Watch()
        return self._watch

    def fileno(self) -> int:
        """The descriptor that watches those of all shards."""
        return int(self._watched().fileno())

    def collect(self) -> bool:
        """End the wait on all shards at the same time; True: a token woke us."""
        ready = self._watched().readable()
        armed, self._armed = self._armed, {}
        away: list[StoreUnavailable] = []
        is_woken = False
        with self._whole_or_closed():
            for fd, number in armed.items():
                self._watched().watch(fd, is_on=False)
                waiter = self._waiters[number]
                try:
                    has_token = waiter.collect() if fd in ready else waiter.disarm()
                except StoreUnavailable as error:
                    self._breaker(number).failed()
                    away.append(error)
                    continue
                if has_token:
                    self._on_woken(self._shard_of(number))
                    is_woken = True
        if away and len(away) == len(armed):
            raise away[-1]
        return is_woken

    def disarm(self) -> bool:
        """End the wait before its time."""
        return self.collect()

    def close(self) -> None:
        self._armed = {}
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        with ExitStack() as stack:  # one that fails keeps no other open
            for waiter in self._waiters:
                stack.callback(waiter.close)
