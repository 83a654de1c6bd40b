"""``fairqueue dashboard`` and ``metrics``: they serve, and refuse what would be open to all."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.unit.conftest import Shell


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_open_address_needs_a_token(shell: Shell, host: str) -> None:
    """Exit code 2, with the remedy."""
    assert "--token" in shell.run("dashboard", "--host", host, code=2).output


@pytest.mark.parametrize(
    "options",
    [["--token", "short"], ["--port", "70000"], ["--host", "not a host", "--token", "x" * 20]],
)
def test_bad_options_are_a_sentence(shell: Shell, options: list[str]) -> None:
    """And no traceback."""
    result = shell.run("dashboard", *options, code=1 if "--host" in options else 2)
    assert "Error" in result.output


def test_a_port_in_use_is_a_sentence(shell: Shell) -> None:
    """It names the port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port}" in shell.run("dashboard", "--port", port, code=1).output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("url = redis://:hunter2@x", "cannot read"),
        ("[a]\nurl = redis://x\nhunter2", "line 3"),
        ("", "names no queue"),
        ("[prod]\nnamespace = x", "has a url"),
        ("[prod]\nurl = redis://x\ntoken = x", "has a url"),
    ],
)
def test_a_file_that_names_no_queue_is_refused(
    shell: Shell, tmp_path: Path, text: str, said: str
) -> None:
    """With what a section has."""
    config = tmp_path / "queues.ini"
    config.write_text(text)
    output = shell.run("dashboard", "--config", str(config), code=2).output
    assert said in output
    assert "hunter2" not in output


@pytest.mark.system
def test_it_serves_until_it_is_interrupted(redis_url: str, namespace: str) -> None:
    """The first line is the address; Ctrl-C ends it without a traceback."""
    where = ["--url", redis_url, "--namespace", namespace, "--port", "0"]
    command = [sys.executable, "-m", "fairqueue.cli", "dashboard", *where]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        assert "Overview" in httpx.get(address, timeout=30).text
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert "Traceback" not in said


@pytest.mark.parametrize("bind", ["", "9797", "host", "host:", "host:99999", "a b:1", "\x1b[31m:1"])
def test_what_is_no_address_of_metrics_is_refused(shell: Shell, bind: str) -> None:
    """Exit code 2, with an example."""
    assert "127.0.0.1:9797" in shell.run("metrics", "--bind", bind, code=2).output


def test_a_port_of_metrics_in_use_is_a_sentence(shell: Shell) -> None:
    """It names the address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        assert bind in shell.run("metrics", "--bind", bind, code=1).output


@pytest.mark.system
def test_an_exporter_ends_when_it_is_told(redis_url: str, namespace: str) -> None:
    """As a container's runtime does."""
    where = ["--url", redis_url, "--namespace", namespace, "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "fairqueue.cli", "metrics", *where], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        process.wait(timeout=10)
