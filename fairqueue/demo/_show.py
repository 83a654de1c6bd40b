"""The demo from start to end: a server, two runs, the report, the picture, and cleanup."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.live import Live

from fairqueue.demo._picture import picture
from fairqueue.demo._run import play
from fairqueue.demo._starts import Run, usual_load
from fairqueue.demo._view import summary, view
from fairqueue.testing import embedded_redis

BROKERS = {"redis://": "{}/0", "fairqueue://": "{}/1?workspace_from=kwarg:customer"}
"""The rest of each URL, with the server's address. Nothing else differs between the runs."""


def show(*, jobs: int, svg: Path, seconds: float = 46.0) -> None:
    """Play the usual load on both brokers within about ``seconds``, and write the picture.

    Raises StoreUnavailable if no server can be started, DemoFailedError if a worker fails.
    """
    console, runs = Console(), [Run(title, usual_load(jobs)) for title in BROKERS]
    with _ended_by_sigterm(), embedded_redis(tcp=True) as server:
        console.print(f"Started {server.version}, pid {server.pid}, port {server.port}.")
        until = time.monotonic() + seconds
        with Live(console=console, refresh_per_second=8, get_renderable=lambda: view(runs)):
            for left, run in zip((2, 1), runs, strict=True):
                url = run.title + BROKERS[run.title].format(server.tcp_address)
                play(run, url, seconds=(until - time.monotonic()) / left)
    console.print("", *summary(runs), sep="\n")
    svg.write_text(picture(runs), encoding="utf-8")
    console.print(f"Picture: {svg}", highlight=False, soft_wrap=True)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C, so that everything is cleaned up."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
