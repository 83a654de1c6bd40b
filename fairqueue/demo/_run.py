"""One run: flood a real Celery worker, and watch the starts in its ledger."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory

from fairqueue.demo._ledger import Ledger, Start
from fairqueue.demo._load import Load
from fairqueue.errors import FairQueueError
from fairqueue.testing import Child

SHOP = Path(__file__).parent / "shop"
BOOT_SECONDS = 20.0
LOOK_SECONDS = 0.1

Watcher = Callable[[Sequence[Start]], None]


class DemoFailedError(FairQueueError):
    """The worker or the producer failed; the message has the end of their log."""


@dataclass(frozen=True, slots=True)
class Run:
    """The result of the load on one broker."""

    title: str
    starts: tuple[Start, ...]
    complete: bool

    @property
    def began_at(self) -> float:
        """The time of the first order."""
        return min((start.ordered_at for start in self.starts), default=0.0)


def run(title: str, broker_url: str, load: Load, *, seconds: float, watch: Watcher) -> Run:
    """Play the load on this broker for at most ``seconds``; call ``watch`` as it progresses."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fairqueue-demo-")))
        shop = _Shop(broker_url, load, folder)
        stack.callback(shop.close)
        shop.open()
        complete = shop.serve(load, seconds=seconds, watch=watch)
        return Run(title=title, starts=tuple(shop.ledger.read()), complete=complete)


class _Shop:
    def __init__(self, broker_url: str, load: Load, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self._opened = folder / "open"
        self._concurrency = load.concurrency
        self._children: list[Child] = []
        self.ledger = Ledger(folder / "ledger")
        self._env = {
            **os.environ,
            "SHOP_BROKER_URL": broker_url,
            "SHOP_LEDGER": str(self.ledger.path),
            "SHOP_OPEN": str(self._opened),
            "SHOP_SECONDS": str(load.job_seconds),
            "TMPDIR": str(folder),  # temporary files of a killed worker are removed with the folder
        }

    def open(self) -> None:
        """Start the worker and wait until it is ready."""
        worker = self._start("-m", "celery", "--quiet", "-A", "tasks", "worker", *self._options())
        deadline = time.monotonic() + BOOT_SECONDS
        while not self._opened.exists():
            if not worker.running or time.monotonic() > deadline:
                raise DemoFailedError(f"the Celery worker did not start:\n{self._log_tail()}")
            time.sleep(0.05)

    def _options(self) -> list[str]:
        pool = ["--pool=prefork", f"--concurrency={self._concurrency}"]
        return [*pool, "--loglevel=WARNING", "--hostname=demo@%h"]

    def serve(self, load: Load, *, seconds: float, watch: Watcher) -> bool:
        """Publish the load; return whether every job ran in time."""
        orders = self._folder / "orders"
        orders.write_text(load.orders())
        customers = self._start("customers.py", stdin=orders)
        deadline = time.monotonic() + seconds
        while len(starts := self.ledger.read()) < load.jobs and time.monotonic() < deadline:
            watch(starts)
            self._check(customers)
            time.sleep(LOOK_SECONDS)
        watch(self.ledger.read())
        return len(self.ledger.starts) >= load.jobs

    def _check(self, customers: Child) -> None:
        if customers.failed or not self._children[0].running:
            raise DemoFailedError(
                f"the worker or the producer stopped during the run:\n{self._log_tail()}"
            )

    def _start(self, *arguments: str, stdin: Path | None = None) -> Child:
        command = [sys.executable, *arguments]
        child = Child(
            command, env=self._env, cwd=SHOP, log=self._log, stdin=stdin, remove=self._folder
        )
        self._children.append(child)
        return child

    def close(self) -> None:
        """Stop the worker; its unfinished jobs are no longer needed."""
        for child in reversed(self._children):
            child.end(number=SIGTERM, patience_seconds=2)

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:].strip() if self._log.exists() else ""
