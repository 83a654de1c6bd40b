"""The demo from start to end: a server, two runs, the report, the picture, and cleanup."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console

from fairqueue.demo._live import LiveView
from fairqueue.demo._load import Load, usual_load
from fairqueue.demo._picture import picture
from fairqueue.demo._report import report
from fairqueue.demo._run import Run, run
from fairqueue.testing import embedded_redis

SCHEMES = {"redis://": "", "fairqueue://": "?workspace_from=kwarg:customer"}
"""What comes before and after the server's address. Nothing else differs between the runs."""


def show(*, jobs: int, svg: Path, seconds: float = 46.0, console: Console | None = None) -> None:
    """Play the usual load on both brokers within about ``seconds``, and write the picture.

    Raises StoreUnavailable if no server can be started, DemoFailedError if a worker fails.
    """
    console, load = console or Console(), usual_load(jobs=jobs)
    with _ended_by_sigterm(), embedded_redis(tcp=True) as server:
        console.print(f"Started {server.version}, pid {server.pid}, port {server.port}.")
        runs = _runs(console, load, server.tcp_address, seconds=seconds)
    report(console, load, runs)
    svg.write_text(picture(load, runs), encoding="utf-8")
    console.print(f"Picture: {svg}", highlight=False, soft_wrap=True)


def _runs(console: Console, load: Load, address: str, *, seconds: float) -> list[Run]:
    deadline = time.monotonic() + seconds
    runs: list[Run] = []
    with LiveView(console, load, list(SCHEMES)) as view:
        for left, (scheme, query) in zip(range(len(SCHEMES), 0, -1), SCHEMES.items(), strict=True):
            url = f"{scheme}{address}/{len(runs)}{query}"
            share = (deadline - time.monotonic()) / left
            runs.append(run(scheme, url, load, seconds=share, watch=partial(view.show, scheme)))
    return runs


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
