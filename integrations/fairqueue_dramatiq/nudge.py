"""Wakes the thread that leads: a pipe, and the core's wake-up beside it."""

from __future__ import annotations

import contextlib
import math
import os
import select

from fairqueue import FairQueue, StoreUnavailable, Waiter

POLL_SECONDS = 1.0  # where no waiting is possible


class Rest:
    """Waits until somebody nudges, the core wakes, or time is up."""

    def __init__(self, core: FairQueue) -> None:
        self._core = core
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._waiter: Waiter | None = None
        self._queues: tuple[str, ...] = ()

    def nudge(self) -> None:
        """End the rest of another thread, now or as soon as it begins."""
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will wake; or closed
            os.write(self._writer, b"!")

    def rest(self, seconds: float) -> None:
        """Wait for a nudge only: there is no idle thread to claim for."""
        self.leave()
        self._poll(None, seconds)

    def rest_or_wake(self, queues: tuple[str, ...], seconds: float, wake_seconds: float) -> bool:
        """Wait also for a wake-up; True: claim now, there may be work or it is time to look."""
        try:
            waiter = self._armed(queues, wake_seconds)
            return self._poll(waiter.fileno(), seconds) and (waiter.collect() or True)
        except StoreUnavailable:
            self.leave()
            self._poll(None, min(seconds, POLL_SECONDS))
            return True  # the claim will tell why

    def _armed(self, queues: tuple[str, ...], seconds: float) -> Waiter:
        if queues != self._queues:
            self.leave()
        if self._waiter is None:
            self._waiter, self._queues = self._core.waiter(queues), queues
        self._waiter.arm(max(0.0, seconds))
        return self._waiter

    def _poll(self, fd: int | None, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if fd is not None:
            poll.register(fd, select.POLLIN)
        ready = {found for found, _ in poll.poll(max(0, math.ceil(seconds * 1000)))}
        if self._reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._reader, 4096)
        return fd in ready

    def leave(self) -> None:
        """Take no wake-up from others."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.close()

    def close(self) -> None:
        """Leave, and free the pipe."""
        self.leave()
        os.close(self._reader)
        os.close(self._writer)
