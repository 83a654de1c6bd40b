"""Wakes the thread that claims: by a pipe, from other threads; by a waiter, from the store."""

from __future__ import annotations

import contextlib
import math
import os
import select
import time

from fairqueue import FairQueue, StoreUnavailable
from fairqueue.adapters import Waiter

SLACK_SECONDS = 0.02  # the waiter may have been armed for a longer time
POLL_SECONDS = 1.0  # while the store cannot be reached


class WakePipe:
    """Waits until another thread calls :meth:`wake`, the store has jobs, or time is up."""

    def __init__(self, core: FairQueue) -> None:
        self._core = core
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._waiter: Waiter | None = None
        self._armed = False
        self.queues: tuple[str, ...] = ()
        """The queues of the last wait for jobs."""

    def wake(self) -> None:
        """End the wait of another thread, now or as soon as it begins."""
        with contextlib.suppress(BlockingIOError, OSError):  # the pipe is full, or closed
            os.write(self._writer, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait to be woken while no thread is idle.

        True: the store's wake-up for an earlier wait has come; a claim must pass it on.
        """
        try:
            return self._wait(seconds) if self._armed else self._poll(None, seconds)
        except StoreUnavailable:
            self.leave()
            return False

    def wait_for_jobs(self, queues: tuple[str, ...], seconds: float, wake_seconds: float) -> bool:
        """Wait for jobs, too. True: claim now, there may be jobs or ``wake_seconds`` are over."""
        try:
            self._arm(queues, wake_seconds)
            return self._wait(min(seconds, max(0.0, wake_seconds) + SLACK_SECONDS))
        except StoreUnavailable:
            self.leave()
            self._poll(None, min(seconds, POLL_SECONDS))
            return True  # the claim will raise the error

    def _arm(self, queues: tuple[str, ...], seconds: float) -> None:
        if queues != self.queues or self._is_silent():
            self.leave()
        if self._waiter is None:
            self._waiter, self.queues = self._core.waiter(queues), queues
        self._waiter.arm(max(0.0, seconds))
        self._armed = True

    def _is_silent(self) -> bool:
        """Whether the store has left a wait unanswered."""
        waiter = self._waiter if self._armed else None
        return waiter is not None and time.monotonic() >= waiter.answered_by

    def _wait(self, seconds: float) -> bool:
        """True: the store woke it, or the time that it was armed for is over."""
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
        """Stop waiting for jobs, so that the store wakes another worker."""
        waiter, self._waiter, self._armed = self._waiter, None, False
        if waiter is not None:
            waiter.close()

    def close(self) -> None:
        """Leave, and close the pipe."""
        self.leave()
        os.close(self._reader)
        os.close(self._writer)
