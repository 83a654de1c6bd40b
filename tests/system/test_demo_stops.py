"""The demo cleans up after itself, even if it is stopped half-way."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.ledger import wait_for

pytest.importorskip("rich", reason="the demo is an extra")


def _environment(process: Path) -> bytes:
    with contextlib.suppress(OSError):
        return (process / "environ").read_bytes()
    return b""


def _processes_naming(mark: str) -> list[Path]:
    """Processes whose environment holds the text."""
    return [path for path in Path("/proc").glob("[0-9]*") if mark.encode() in _environment(path)]


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="it looks for leftovers in /proc"
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_demo_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Ctrl-C, SIGTERM and even SIGKILL end the worker and the server, and remove their folders."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "fairqueue.cli", "demo", "--svg", str(tmp_path / "x.svg")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as demo:
        ledgers = "fairqueue-demo-*/ledger"
        wait_for(lambda: any(x.stat().st_size for x in tmp_path.glob(ledgers)))
        demo.send_signal(number)
        demo.wait(60)
    wait_for(lambda: not _processes_naming(str(tmp_path)))
    wait_for(lambda: list(tmp_path.iterdir()) == [])
