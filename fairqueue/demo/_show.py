"""The show: server, two runs, report, picture, and nothing left behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console

from fairqueue.demo._emulated import emulated_redis
from fairqueue.demo._live import LiveView
from fairqueue.demo._load import Load, usual_load
from fairqueue.demo._picture import picture
from fairqueue.demo._report import report
from fairqueue.demo._run import Run, run
from fairqueue.testing import embedded_redis, find_server

SCHEMES = {"redis://": "", "fairqueue://": "?workspace_from=kwarg:tenant"}
"""What stands before and after the address; nothing else differs between the runs."""

SLOW_JOBS = 120
"""Size of the flood on an emulation."""


def show(*, jobs: int, svg: Path, seconds: float = 46.0, console: Console | None = None) -> None:
    """Play the usual load on both brokers within about ``seconds``, and write the picture.

    Raises StoreUnavailable if no server can be started, DemoFailedError if a worker does not work.
    """
    console = console or Console()
    with _ended_by_sigterm(), _server(console) as (address, slow):
        load = usual_load(jobs=SLOW_JOBS, small_jobs=5) if slow else usual_load(jobs=jobs)
        runs = _runs(console, load, address, seconds=seconds)
    report(console, load, runs)
    svg.write_text(picture(load, runs), encoding="utf-8")
    console.print(f"Picture: {svg}", highlight=False, soft_wrap=True)


@contextmanager
def _server(console: Console) -> Iterator[tuple[str, bool]]:
    """Address of a server of one's own, and whether it is slow."""
    if find_server() is None:
        console.print("No Redis server here: an emulation stands in, with a much smaller load.")
        with emulated_redis() as address:
            yield address, True
    else:
        with embedded_redis(tcp=True) as server:
            console.print(f"A Redis of its own, pid {server.pid}, port {server.port}.")
            yield server.tcp_address, False


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
