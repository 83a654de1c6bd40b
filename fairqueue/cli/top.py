"""``fairqueue top``: a live table of workspaces, with keys to pause, resume and explain."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fairqueue.adapters import needs_extra
from fairqueue.cli._connect import BadUsage, connection_options, opened_queue, shown_url
from fairqueue.cli._options import as_pause
from fairqueue.plain import printable

NO_TERMINAL = "top needs a terminal: use fairqueue stats, which prints once, or stats --watch"
KEYS = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}


@click.command()
@click.option(
    "--every",
    callback=as_pause,
    default="2",
    show_default=True,
    help="How long from one look to the next, such as 10 or 5m.",
)
@connection_options
def top(*, url: str, namespace: str | None, every: float) -> None:
    """Watch the workspaces live: what runs and waits, limits, shares, and states.

    Keys: arrows choose a row, s sorts, / filters, p pauses, r resumes, Enter tells why its jobs
    wait, q quits.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadUsage(NO_TERMINAL)
    with needs_extra("top", "dashboard", BadUsage):
        from rich.live import Live  # noqa: PLC0415 - an extra

        from fairqueue.cli._board import Board  # noqa: PLC0415
    with opened_queue(url, namespace) as core, _single_keys(sys.stdin.fileno()):
        board = Board(core, f"{printable(shown_url(url))} {core.settings.namespace}")
        board.look()
        with Live(screen=True, auto_refresh=False) as live:
            looked = time.monotonic()
            while not board.is_done:
                live.update(board.shown(live.console.height), refresh=True)
                for key in pressed(sys.stdin.fileno(), looked + every - time.monotonic()):
                    board.press(key)
                if time.monotonic() - looked >= every:
                    board.look()
                    looked = time.monotonic()


@contextmanager
def _single_keys(terminal: int) -> Iterator[None]:
    """Read keys one by one, and set the terminal back at the end, whatever happens."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def pressed(terminal: int, seconds: float) -> list[str]:
    """Wait so long for keys at most, and return them."""
    ready, _, _ = select.select([terminal], [], [], max(0.0, seconds))
    read = os.read(terminal, 64) if ready else b""
    if ready and not read:
        return ["q"]  # the terminal has gone
    return keys_of(read)


def keys_of(read: bytes) -> list[str]:
    """Return the names of keys, or the characters themselves."""
    if read in KEYS:
        return [KEYS[read]]
    if read.startswith(b"\x1b"):
        return []  # a key that is not used here
    text = read.decode("utf-8", "ignore")
    return [
        KEYS.get(char.encode(), char) for char in text if char.isprintable() or char in "\r\n\x7f"
    ]
