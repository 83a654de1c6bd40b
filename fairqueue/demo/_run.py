"""The demo from start to end: a server, two floods of a real Celery worker, and the report."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.live import Live

from fairqueue.demo._picture import picture
from fairqueue.demo._starts import JOB_SECONDS, PROCESSES, Run, usual_load
from fairqueue.demo._view import summary, view
from fairqueue.errors import FairQueueError
from fairqueue.testing import Child, embedded_redis

SHOP = Path(__file__).parent / "shop"
WORKER = ("-m", "celery", "--quiet", "-A", "tasks", "worker", "--loglevel=WARNING")
POOL = ("--pool=prefork", f"--concurrency={PROCESSES}", "--hostname=demo@%h")
BOOT_SECONDS = 20.0
LOOK_SECONDS = 0.1
BROKERS = {"redis://": "{}/0", "fairqueue://": "{}/1?workspace_from=kwarg:customer"}
"""The rest of each URL, with the server's address. Nothing else differs between the runs."""


class DemoFailedError(FairQueueError):
    """The worker or the producer failed; the message has the end of their log."""


def show(*, jobs: int, svg: Path, seconds: float = 46.0) -> None:
    """Play the usual load on both brokers within about ``seconds``, and write the picture.

    Raises StoreUnavailable if no server can be started, DemoFailedError if a worker fails.
    """
    console, runs = Console(), [Run(title, usual_load(jobs)) for title in BROKERS]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # it unwinds as Ctrl-C does
    with embedded_redis(tcp=True) as server:
        console.print(f"Started {server.version}, pid {server.pid}, port {server.port}.")
        until = time.monotonic() + seconds
        with Live(console=console, refresh_per_second=8, get_renderable=lambda: view(runs)):
            for left, run in zip((2, 1), runs, strict=True):
                url = run.title + BROKERS[run.title].format(server.tcp_address)
                play(run, url, seconds=(until - time.monotonic()) / left)
    console.print("", *summary(runs), sep="\n")
    svg.write_text(picture(runs), encoding="utf-8")
    console.print(f"Picture: {svg}", highlight=False, soft_wrap=True)


def play(run: Run, broker_url: str, *, seconds: float) -> None:
    """Play the run's load on this broker for at most ``seconds``, and update it meanwhile."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="fairqueue-demo-")))
        ledger, log = folder / "ledger", folder / "log"
        env = {
            **os.environ,
            "SHOP_BROKER_URL": broker_url,
            "SHOP_LEDGER": str(ledger),
            "SHOP_SECONDS": str(JOB_SECONDS),
            "TMPDIR": str(folder),  # temporary files of a killed worker are removed with the folder
        }

        def start(*arguments: str) -> Child:
            command = [sys.executable, *arguments]
            child = Child(command, env=env, cwd=SHOP, log=log, remove=folder)
            stack.callback(child.end, number=signal.SIGTERM, patience_seconds=2)
            return child

        worker = start(*WORKER, *POOL)
        boots_until = time.monotonic() + BOOT_SECONDS
        while not ledger.exists():  # the worker makes it when it is ready
            if not worker.running or time.monotonic() > boots_until:
                raise DemoFailedError(f"the Celery worker did not start:\n{_end_of(log)}")
            time.sleep(0.05)
        customers = start("customers.py", json.dumps(run.load))
        runs_until = time.monotonic() + seconds
        with ledger.open() as lines:
            while len(run.starts) < run.jobs and time.monotonic() < runs_until:
                if customers.failed or not worker.running:
                    raise DemoFailedError(f"the worker or the producer stopped:\n{_end_of(log)}")
                time.sleep(LOOK_SECONDS)
                run.read(lines.read())


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:].strip()
