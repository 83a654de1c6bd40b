"""A real worker and its producer, configured like a user's, on either broker."""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP, Signals
from tempfile import TemporaryDirectory

from celery import Celery
from dramatiq import Message
from dramatiq.brokers.redis import RedisBroker

import fairqueue_dramatiq
from _bench.messages import WORKSPACES
from fairqueue.testing import Child

APPS = Path(__file__).parents[1] / "apps"
BOOT_SECONDS = 30.0
PATIENCE_SECONDS = 60.0
STAMP = struct.Struct("d")


class Worker:
    """One worker process, its jobs' start times, and a producer that publishes to it."""

    def __init__(self, folder: Path, *command: str, **given: str) -> None:
        self._starts, self._ready, self._log = (folder / n for n in ("starts", "ready", "log"))
        self._naps = folder / "naps"
        self._starts.touch()
        files = {
            "BENCH_STARTS": str(self._starts),
            "BENCH_READY": str(self._ready),
            "BENCH_NAPS": str(self._naps),
        }
        self._child = Child(
            [sys.executable, "-m", *command],
            env={**os.environ, **files, **given},
            cwd=APPS,
            log=self._log,
        )
        self._sent = 0

    def send(self, number: int, workspace: str) -> None:
        """Publish one job."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The process id of its main process."""
        return self._child.pid

    def wait_until_ready(self) -> None:
        """Wait until the worker takes jobs."""
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._ready.exists():
            if not self._child.running or time.monotonic() > deadline:
                raise RuntimeError(f"the worker did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def publish(self, count: int) -> None:
        """Publish ``count`` jobs; ten workspaces take turns."""
        for _ in range(count):
            self._sent += 1
            self.send(self._sent, f"client-{self._sent % WORKSPACES}")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop the worker inside the block, so that jobs pile up."""
        self.signal(SIGSTOP)
        try:
            yield
        finally:
            self.signal(SIGCONT)

    def signal(self, number: Signals) -> None:
        """Send a signal to the consuming process: Celery's main process."""
        self._child.signal(number)

    def starts(self, count: int, *, look_seconds: float = 0.02) -> list[float]:
        """Wait for ``count`` starts, return their times, and reset the file."""
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
        """Stop the worker."""
        self._child.end(patience_seconds=5)


class CeleryWorker(Worker):
    """A ``celery worker``, and an app that publishes to it."""

    def __init__(self, folder: Path, url: str, *, concurrency: int, pool: str = "prefork") -> None:
        command = ["celery", "-A", "bench_tasks", "worker"]
        options = [f"--pool={pool}", f"--concurrency={concurrency}", "--loglevel=WARNING"]
        super().__init__(folder, *command, *options, BENCH_BROKER=url)
        self._app = Celery("producer", broker=url, set_as_current=False)

    def send(self, number: int, workspace: str) -> None:
        """Call the task."""
        self._app.send_task("bench.noop", (number,), {"tenant_id": workspace})

    def nap(self, seconds: float, workspace: str) -> None:
        """Call the task that sleeps."""
        self._app.send_task("bench.nap", (seconds,), {"tenant_id": workspace})

    def napped(self) -> dict[str, float]:
        """Return the worker-seconds of each workspace until now."""
        used: dict[str, float] = defaultdict(float)
        for line in self._naps.read_text().splitlines():
            workspace, seconds = line.split()
            used[workspace] += float(seconds)
        return used

    def close(self) -> None:
        """Stop the worker, and close the producer."""
        self._app.close()
        super().close()


class DramatiqWorker(Worker):
    """A ``dramatiq`` worker process, and a broker; ``settings`` are for the middleware."""

    def __init__(self, folder: Path, url: str, settings: dict[str, str], *, threads: int) -> None:
        command = ["dramatiq", "bench_actors", "--processes=1", f"--threads={threads}"]
        given = {"BENCH_BROKER": url, "BENCH_SETTINGS": json.dumps(settings)}
        super().__init__(folder, *command, **given)
        self._broker = RedisBroker(url=url)
        if settings:
            fairqueue_dramatiq.install(self._broker, **settings)

    def send(self, number: int, workspace: str) -> None:
        """Enqueue a message."""
        kwargs = {"tenant_id": workspace}
        self._broker.enqueue(Message("default", "noop", (number,), kwargs, {}))

    def signal(self, number: Signals) -> None:
        """Send a signal to the process group, because the main process does not consume."""
        os.killpg(self.pid, number)

    def close(self) -> None:
        """Stop the worker, and close the producer."""
        self._broker.close()
        super().close()


@contextmanager
def working(start: Callable[[Path], Worker]) -> Iterator[Worker]:
    """Yield a worker that is ready."""
    with TemporaryDirectory(prefix="fairqueue-bench-") as folder:
        worker = start(Path(folder))
        try:
            worker.wait_until_ready()
            yield worker
        finally:
            worker.close()
