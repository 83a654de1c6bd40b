"""Wakes the thread that leads: a pipe, and the core's wake-up beside it."""

from __future__ import annotations

import contextlib
import math
import os
import select

from fairqueue import FairQueue, StoreUnavailable, Waiter

SLACK_SECONDS = 0.02  # an armed waiter may have been given a longer time
POLL_SECONDS = 1.0  # where no waiting is possible


class Rest:
    """Waits until somebody nudges, the core wakes, or time is up."""

    def __init__(self, core: FairQueue) -> None:
        self._core = core
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._waiter: Waiter | None = None
        self._armed = False
        self.queues: tuple[str, ...] = ()
        """Those that were waited for last."""

    def nudge(self) -> None:
        """End the rest of another thread, now or as soon as it begins."""
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will wake; or closed
            os.write(self._writer, b"!")

    def rest(self, seconds: float) -> bool:
        """Wait for a nudge: there is no idle thread to claim for.

        True: the wake-up that was waited for before has come, and must be passed on by a claim.
        """
        try:
            return self._wait(seconds) if self._armed else self._poll(None, seconds)
        except StoreUnavailable:
            self.leave()
            return False

    def rest_or_wake(self, queues: tuple[str, ...], seconds: float, wake_seconds: float) -> bool:
        """Wait also for a wake-up; True: claim now, there may be work or it is time to look."""
        try:
            self._arm(queues, wake_seconds)
            return self._wait(min(seconds, max(0.0, wake_seconds) + SLACK_SECONDS))
        except StoreUnavailable:
            self.leave()
            self._poll(None, min(seconds, POLL_SECONDS))
            return True  # the claim will tell why

    def _arm(self, queues: tuple[str, ...], seconds: float) -> None:
        if queues != self.queues:
            self.leave()
        if self._waiter is None:
            self._waiter, self.queues = self._core.waiter(queues), queues
        self._waiter.arm(max(0.0, seconds))
        self._armed = True

    def _wait(self, seconds: float) -> bool:
        """True: it was woken, or the time that it was armed for is up."""
        if self._waiter is None or not self._poll(self._waiter.fileno(), seconds):
            return False
        self._armed = False
        self._waiter.collect()
        return True

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
        waiter, self._waiter, self._armed = self._waiter, None, False
        if waiter is not None:
            waiter.close()

    def close(self) -> None:
        """Leave, and free the pipe."""
        self.leave()
        os.close(self._reader)
        os.close(self._writer)
