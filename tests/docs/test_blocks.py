"""What pages show beside Python and commands is right, too: messages, configuration, units."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fairqueue import FairQueue
from fairqueue.testing import embedded_redis
from tests.pages import DOCS, ROOT, blocks

MESSAGES = re.findall(r"^> (.+)$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
REDIS = DOCS / "operate" / "redis.md"


@cache
def _said() -> tuple[str, ...]:
    """Every text in the code, with ``…`` for what is filled in."""
    files = [*ROOT.glob("fairqueue/**/*.py"), *ROOT.glob("integrations/**/*.py")]
    return tuple(text for file in files for text in _texts(file))


def _texts(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%[srdg]", "…", node.value)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_one_of_the_code(message: str) -> None:
    """The page about troubleshooting quotes what is really said."""
    assert any(message in text for text in _said())


def test_the_page_has_messages() -> None:
    """The pattern above has found them."""
    assert len(MESSAGES) > 30


def test_redis_takes_the_configuration() -> None:
    """Each line of the page, and the user that it makes runs what fairqueue runs."""
    lines, user, *_ = blocks(REDIS, "text")
    with embedded_redis() as server:
        client = server.client()
        for line in lines.splitlines():
            assert client.config_set(*line.split())
        client.execute_command(*user.replace("SECRET", "secret").split())
        url = server.url.replace("unix://", "unix://app:secret@")
        with FairQueue(url) as queue:
            queue.publish(b"x", queue="q", workspace="acme", task="t")
            (lease,) = queue.claim(["q"]).leases
            queue.ack(lease)
