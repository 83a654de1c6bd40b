"""``fairqueue metrics``: it serves, and refuses what is no address."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.unit.conftest import Shell


@pytest.mark.parametrize("bind", ["", "9797", "host", "host:", "host:99999", "a b:1", "\x1b[31m:1"])
def test_what_is_no_address_is_refused(shell: Shell, bind: str) -> None:
    """Exit code 2, with an example."""
    assert "127.0.0.1:9797" in shell.run("metrics", "--bind", bind, code=2).output


def test_a_port_in_use_is_a_sentence(shell: Shell) -> None:
    """It names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        assert bind in shell.run("metrics", "--bind", bind, code=1).output


@pytest.mark.system
def test_it_ends_when_it_is_told(redis_url: str, namespace: str) -> None:
    """As a container's runtime does."""
    where = ["--url", redis_url, "--namespace", namespace, "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "fairqueue.cli", "metrics", *where], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.wait(timeout=10)
