"""The pages that tests read: the README, and all of docs/."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import click

from fairqueue.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]

_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def label(page: Path) -> str:
    """The page's path, as an id of a test."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The code of a page in one language, without the indentation of a list."""
    found = _BLOCK.findall(page.read_text())
    return [textwrap.dedent(code) for _, of, code in found if of == language]


def check_command(words: Sequence[str]) -> None:
    """A ``fairqueue`` command exists and has the options that it is given; else click raises."""
    command: click.Command = main
    words = list(words)
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(click.Context(command), words)
        assert found is not None
        command = found
    command.make_context("fairqueue", words)
