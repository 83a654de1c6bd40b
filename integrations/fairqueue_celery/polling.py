"""Blocking consumption, where no event loop drives: drain_events of kombu, gevent and eventlet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

from kombu.transport.redis import MultiChannelPoller

from fairqueue_celery import crew
from fairqueue_celery.janitor import janitor
from fairqueue_celery.slot import Slot


class Poller(MultiChannelPoller):
    """Stock polling of plain queues and fanout, beside the claims of each channel."""

    def __init__(self, transport: Any) -> None:
        super().__init__()
        self._transport = transport
        self._ours: dict[int, Any] = {}
        self._nudge: tuple[int, int] | None = None
        self._nudged = False
        self._delivered_at = 0.0

    def get(self, callback: Callable[..., None], timeout: float | None = None) -> None:
        """Handle one event, or raise Empty when there is none in time."""
        channels = [channel for channel in self._channels if channel.claims.queues]
        if not channels:
            self.poll_plain(callback, timeout)
            return
        if self._stepped(channels):
            return
        self._wait(channels, callback, timeout)

    def poll_plain(self, callback: Callable[..., None], timeout: float | None) -> None:
        """Handle one plain message or one event of a descriptor, or raise Empty."""
        super().get(callback, timeout=timeout)

    def _stepped(self, channels: list[Any]) -> bool:
        """Whether a job was delivered; what its consumer acked at once is told at once."""
        return sum(self._step(channel) for channel in channels) > 0

    def _step(self, channel: Any) -> bool:
        workers = self._is_workers()
        claims = channel.claims
        if self._delivered_at and not workers:
            claims.took(time.monotonic() - self._delivered_at)  # until it came for the next
        begun = time.monotonic()
        delivered: bool = claims.step(channel.deliver, most=None if workers else 1)
        self._delivered_at = begun if delivered else 0.0
        if channel.broker.slots.pending or claims.ahead:
            janitor.look()
        return delivered

    def _is_workers(self) -> bool:
        return crew.worker_of(self._transport) is not None

    # Waiting

    def _wait(
        self, channels: list[Any], callback: Callable[..., None], timeout: float | None
    ) -> None:
        self._listen(channels)
        try:
            self.poll_plain(callback, _shorter(timeout, self._due_in(channels)))
        except Empty:
            if not self._stepped(channels):
                raise

    def _due_in(self, channels: list[Any]) -> float | None:
        due = [due for channel in channels if (due := channel.claims.due_in()) is not None]
        return min(due) if due else None

    def _listen(self, channels: list[Any]) -> None:
        self._listen_to_nudges()
        wanted = {fd: ch for ch in channels if (fd := ch.claims.fileno()) is not None}
        for fd in set(self._ours) - set(wanted):
            self._forget(fd)
        for channel in channels:
            channel.claims.changed = self._changed
            channel.claims.closing = self._forget
        for fd, channel in wanted.items():
            if fd not in self._ours:
                self.poller.register(fd, self.eventflags)
            self._ours[fd] = channel

    def _forget(self, fd: int) -> None:
        if self._ours.pop(fd, None) is None:
            return
        try:
            self.poller.unregister(fd)
        except (KeyError, ValueError, OSError):
            return  # closed with its connection, and so gone from the poller

    def _listen_to_nudges(self) -> None:
        """Another thread or greenlet may end a job while we wait."""
        if self._nudge is None:
            self._nudge = reader, writer = os.pipe()
            self._nudged = False
            os.set_blocking(reader, False)
            os.set_blocking(writer, False)
            self.poller.register(reader, self.eventflags)

    def _changed(self, _slot: Slot) -> None:
        janitor.look()  # the poll may have ended for good: the worker stops
        if self._nudge is None or self._nudged:
            return
        self._nudged = True  # before it writes: eventlet lets one greenlet at a time write
        os.write(self._nudge[1], b"!")

    def handle_event(self, fileno: int, event: int) -> Any:
        """A wake-up or a nudge ends the wait; the rest is stock."""
        if self._nudge is not None and fileno == self._nudge[0]:
            self._nudged = False  # before it reads: what changes from here on writes again
            os.read(fileno, 4096)
            return None
        channel = self._ours.get(fileno)
        if channel is None:
            return super().handle_event(fileno, event)
        if channel.claims.fileno() == fileno:
            channel.claims.wake()
        self._forget(fileno)
        return None

    def close(self) -> None:
        """Close what was opened to wait."""
        for channel in self._channels:
            channel.claims.changed = channel.claims.closing = None
        for fd in list(self._ours):
            self._forget(fd)
        nudge, self._nudge = self._nudge, None
        if nudge is not None:
            self.poller.unregister(nudge[0])
            os.close(nudge[0])
            os.close(nudge[1])
        super().close()


def _shorter(first: float | None, second: float | None) -> float | None:
    given = [seconds for seconds in (first, second) if seconds is not None]
    return min(given) if given else None
