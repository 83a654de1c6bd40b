"""``fairqueue top``: its table, its keys, and a real terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.console import Console

from fairqueue import FairQueue, Pause, Scope, WorkspaceStats
from fairqueue.cli._board import Board
from fairqueue.cli.top import keys_of
from fairqueue.shares import shares_of
from tests.pauses import paused
from tests.unit.conftest import Shell

HOSTILE = "\x1b[2J[red]x[/red]"


@pytest.fixture
def board(namespace: str) -> Iterator[Board]:
    """A board of three workspaces, one with a name that would steer the terminal."""
    with FairQueue("memory://", namespace=namespace) as queue:
        for name, n in (("acme", 3), ("globex", 2), (HOSTILE, 1)):
            for _ in range(n):
                queue.publish(b"", queue="q", workspace=name, task="t")
        queue.claim(["q"], 2)
        board = Board(queue, "here")
        board.look()
        yield board


def _text(board: Board, height: int = 24) -> str:
    console = Console(width=110, height=height, color_system=None)
    with console.capture() as shown:
        console.print(board.shown(height))
    return shown.get()


def _press(board: Board, *keys: str) -> None:
    for key in keys:
        board.press(key)


def test_the_table_shows_each_workspace(board: Board) -> None:
    """With its share and what is fair; a name is text."""
    text = _text(board)
    assert "2 running   4 queued   3 workspaces" in text
    assert "\\x1b[2J[red]x[/red]" in text
    assert "\x1b" not in text
    assert "50 %" in text


def test_keys_sort_and_filter(board: Board) -> None:
    """A filter is typed, kept by Enter and removed by Escape."""
    _press(board, "s", "s", "s")
    assert [row.workspace for row in board.rows()] == [HOSTILE, "acme", "globex"]
    _press(board, "/", "g", "x", "backspace", "l", "enter")
    assert [row.workspace for row in board.rows()] == ["globex"]
    assert "filter 'gl'" in _text(board)
    _press(board, "escape")
    assert len(board.rows()) == 3


def test_keys_pause_and_resume(board: Board) -> None:
    """The chosen row; its state follows at once."""
    _press(board, "down", "p")
    name = board.rows()[board.at].workspace
    assert paused(board.core) == {("workspace", name): Pause.PAUSED}
    assert "paused" in _text(board)
    _press(board, "r")
    assert paused(board.core) == {}


def test_enter_tells_why(board: Board) -> None:
    """What ``fairqueue workspace`` says; Escape goes back."""
    board.core.pauses.pause(Scope.workspace("acme"))
    _press(board, "/", "a", "c", "m", "enter", "enter")
    assert "paused: workspace acme" in _text(board)
    _press(board, "escape", "q")
    assert board.is_done


def test_a_long_list_scrolls(board: Board) -> None:
    """The chosen row is always in sight."""
    for n in range(40):
        board.core.publish(b"", queue="q", workspace=f"w{n:02}")
    board.look()
    _press(board, *["down"] * 30)
    assert board.rows()[30].workspace in _text(board, height=15)


def test_an_outage_is_said(namespace: str) -> None:
    """In a line, and the table stays."""
    board = Board(FairQueue("redis://127.0.0.1:1/0", brings_limits=False), "here")
    board.look()
    assert "no answer yet" in _text(board)
    assert board.said
    _press(board, "down", "p", "enter", "s")


def test_bytes_become_keys() -> None:
    """Arrows, Escape, characters; what is not used is nothing."""
    read = [b"\x1b[A", b"\x1bOB", b"\x1b", b"\r", b"ab", "ä".encode(), b"\x1b[5~", b"\x00"]
    keys = [["up"], ["down"], ["escape"], ["enter"], ["a", "b"], ["ä"], [], []]
    assert list(map(keys_of, read)) == keys


def _row(
    name: str, running: int, waiting: int, *, limit: int | None = None, weight: float = 1.0
) -> WorkspaceStats:
    return WorkspaceStats(name, waiting, 0, running, limit, None, 0, 0, weight=weight)


@pytest.mark.parametrize(
    ("rows", "fair"),
    [
        ([], []),
        ([_row("a", 0, 5)], [0.0]),
        ([_row("a", 4, 9), _row("b", 4, 9)], [0.5, 0.5]),
        ([_row("a", 6, 9, weight=3.0), _row("b", 2, 9)], [0.75, 0.25]),
        ([_row("a", 8, 9), _row("b", 1, 0), _row("c", 1, 9)], [0.45, 0.1, 0.45]),
        ([_row("a", 8, 9), _row("b", 2, 9, limit=2)], [0.8, 0.2]),
    ],
)
def test_fair_shares(rows: list[WorkspaceStats], fair: list[float]) -> None:
    """By weight, no more than jobs and limit allow; what one leaves goes to the others."""
    assert [share.fair for share in shares_of(rows).values()] == pytest.approx(fair)


def test_without_a_terminal_it_refuses(shell: Shell) -> None:
    """And names what prints once."""
    assert "fairqueue stats" in shell.run("top", code=2).output
