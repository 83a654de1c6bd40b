"""Child processes, each stopped by its pid, that end soon after this process does."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM, Signals

# Kills the child's process group when the pipe to this process breaks, which also happens when
# this process is killed. A line on the pipe means that the child was stopped: its pid may belong to
# another process by now.
_WATCHDOG = """
read _ && exit
kill -TERM -"$1"; sleep 1; kill -KILL -"$1"
[ -n "$2" ] && rm -rf "$2"
"""


class Child:
    """A child process in its own session, so that Ctrl-C in a terminal does not reach it.

    It appends its output to ``log`` if that is given. If this process dies without calling
    :meth:`end`, the child is stopped soon after and the folder ``remove`` is deleted.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        log: Path | None = None,
        remove: Path | None = None,
    ) -> None:
        with Path(log or os.devnull).open("ab") as out:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._watchdog = _watch(self.pid, remove)

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        return bool(self._process.poll())

    def signal(self, number: Signals) -> None:
        """Send it a signal if it is still running."""
        if self.running:
            self._process.send_signal(number)

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for its end; False: it is still running."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.running

    def end(self, *, number: Signals = SIGTERM, patience_seconds: float = 10) -> None:
        """Signal it and, after ``patience_seconds``, kill its process group. May be repeated."""
        self.signal(SIGCONT)  # a stopped process would not handle the next signal
        self.signal(number)
        if not self.wait(patience_seconds):
            self._kill_group()
        _dismiss(self._watchdog)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, SIGKILL)
        self._process.wait()


def _watch(pid: int, remove: Path | None) -> subprocess.Popen[bytes]:
    arguments = [str(pid), str(remove or "")]
    command = ["/bin/sh", "-c", _WATCHDOG, "fairqueue-watchdog", *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _dismiss(watchdog: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):
        watchdog.communicate(b"done\n", timeout=10)
