"""A real Celery worker with its producer: both as a user has them, on either broker."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from tempfile import TemporaryDirectory

from celery import Celery

from _bench.messages import TENANTS
from fairqueue.testing import Child

APPS = Path(__file__).parents[1] / "apps"
BOOT_SECONDS = 30.0
PATIENCE_SECONDS = 60.0
STAMP = struct.Struct("d")


class Worker:
    """One ``celery worker``, its tasks' start times, and an app that publishes to it."""

    def __init__(self, url: str, folder: Path, *, concurrency: int) -> None:
        self._starts, self._ready, self._log = (folder / n for n in ("starts", "ready", "log"))
        self._starts.touch()
        given = {"BENCH_BROKER": url, "BENCH_STARTS": self._starts, "BENCH_READY": self._ready}
        command = [sys.executable, "-m", "celery", "-A", "bench_tasks", "worker"]
        options = ["--pool=prefork", f"--concurrency={concurrency}", "--loglevel=WARNING"]
        self._child = Child(
            [*command, *options],
            env={**os.environ, **{name: str(value) for name, value in given.items()}},
            cwd=APPS,
            log=self._log,
        )
        self._app = Celery("producer", broker=url, set_as_current=False)
        self._sent = 0

    @property
    def pid(self) -> int:
        """Its main process."""
        return self._child.pid

    def wait_until_ready(self) -> None:
        """Wait until it takes jobs."""
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._ready.exists():
            if not self._child.running or time.monotonic() > deadline:
                raise RuntimeError(f"the worker did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def publish(self, count: int) -> None:
        """Call the task so many times; ten tenants call in turn."""
        for _ in range(count):
            self._sent += 1
            tenant = f"tenant-{self._sent % TENANTS}"
            self._app.send_task("bench.noop", (self._sent,), {"tenant_id": tenant})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop its main process for a while, so that jobs pile up."""
        self._child.signal(SIGSTOP)
        try:
            yield
        finally:
            self._child.signal(SIGCONT)

    def starts(self, count: int, *, look_seconds: float = 0.02) -> list[float]:
        """Wait for so many starts and return their times; then forget them."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._starts.stat().st_size < count * STAMP.size:
            if time.monotonic() > deadline or not self._child.running:
                raise RuntimeError(f"jobs did not run:\n{self._log.read_text()[-2000:]}")
            time.sleep(look_seconds)
        stamps = self._starts.read_bytes()
        os.truncate(self._starts, 0)
        if len(stamps) != count * STAMP.size:
            raise RuntimeError(f"{len(stamps) // STAMP.size} starts of {count} jobs")
        return sorted(at for (at,) in STAMP.iter_unpack(stamps))

    def close(self) -> None:
        """End it."""
        self._app.close()
        self._child.end(patience_seconds=5)


@contextmanager
def working(url: str, *, concurrency: int) -> Iterator[Worker]:
    """A worker that is ready."""
    with TemporaryDirectory(prefix="fairqueue-bench-") as folder:
        worker = Worker(url, Path(folder), concurrency=concurrency)
        try:
            worker.wait_until_ready()
            yield worker
        finally:
            worker.close()
