"""Drives the claims from the worker's event loop.

Everything that may change what is due (an ack, an end, a wake-up) schedules one step on the loop's
timer. Timers fire after the acks that Celery has queued, and before the pool looks for jobs to
write to its processes: so what a step delivers is on its way in the same turn of the loop.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from fairqueue_celery.consuming import HOLD_BACK_SECONDS
from fairqueue_celery.janitor import janitor
from fairqueue_celery.slot import Slot

if TYPE_CHECKING:
    from fairqueue_celery.channel import Channel


class HubDriver:
    """Steps the claims of one transport's channels in one event loop."""

    def __init__(self, transport: Any, hub: Any) -> None:
        self._transport = transport
        self._hub = hub
        self._thread = threading.get_ident()
        self._channels: list[Channel] = []
        self._entry: Any = None
        self._due = 0.0
        self._readers: dict[int, Channel] = {}
        self._nudge_reader, self._nudge_writer = os.pipe()
        os.set_blocking(self._nudge_reader, False)
        os.set_blocking(self._nudge_writer, False)
        hub.add_reader(self._nudge_reader, self._nudged)

    def follow(self, channel: Channel) -> None:
        """Step this channel's claims too."""
        if channel not in self._channels:
            self._channels.append(channel)
        channel.claims.changed = self._changed
        channel.claims.closing = self._unwatch
        self._schedule(0.0)

    # Scheduling

    def _changed(self, slot: Slot) -> None:
        if threading.get_ident() != self._thread:
            self._nudge()
        elif slot.running:
            self._schedule(HOLD_BACK_SECONDS)  # an early ack: its end may come along
        else:
            self._start_next(slot)
            self._schedule(0.0)

    def _start_next(self, slot: Slot) -> None:
        for channel in self._channels:
            if channel.claims is slot.owner:
                channel.claims.deliver_next(channel.deliver)

    def _nudge(self) -> None:
        janitor.look()  # the loop may be gone, or stand still while the worker stops
        with contextlib.suppress(OSError):  # it is full, and the loop will wake; or it is closed
            os.write(self._nudge_writer, b"!")

    def _nudged(self, *_: object) -> None:
        os.read(self._nudge_reader, 4096)
        self._schedule(0.0)

    def _schedule(self, delay: float) -> None:
        janitor.look()  # a step that is due never comes once the loop has ended
        hub_now = time.monotonic()
        if self._entry is not None:
            if self._due <= hub_now + delay:
                return
            self._entry.cancel()
        self._due = hub_now + delay
        self._entry = self._hub.call_later(delay, self._step)

    # Stepping

    def _step(self) -> None:
        self._entry = None
        for channel in list(self._channels):
            channel.claims.give_back_stale()
            self._step_channel(channel)

    def _step_channel(self, channel: Channel) -> None:
        channel.claims.step(channel.deliver)
        self._watch(channel)
        due = channel.claims.due_in()
        if due is not None:
            self._schedule(due)

    def _watch(self, channel: Channel) -> None:
        fd = channel.claims.fileno()
        if fd is not None and fd not in self._readers:
            self._readers[fd] = channel
            self._hub.add_reader(fd, self._readable, fd)

    def _unwatch(self, fd: int) -> None:
        if self._readers.pop(fd, None) is not None:
            self._hub.remove_reader(fd)

    def _readable(self, fd: int) -> None:
        channel = self._readers.get(fd)
        if channel is None or channel.claims.fileno() != fd:
            self._unwatch(fd)  # a link that broke while nobody was waiting
            return
        channel.claims.wake()
        self._step_channel(channel)

    def stop(self) -> None:
        """Let go of the loop."""
        for channel in self._channels:
            channel.claims.changed = channel.claims.closing = None
        if self._entry is not None:
            self._entry.cancel()
            self._entry = None
        for fd in [*self._readers, self._nudge_reader]:
            self._hub.remove_reader(fd)
        self._readers.clear()
        self._channels.clear()
        os.close(self._nudge_reader)
        os.close(self._nudge_writer)
