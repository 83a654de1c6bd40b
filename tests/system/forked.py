"""Starts workers as forks of a process that has imported their framework.

A third of the suite's processor went to the imports of some hundred workers. A fork begins where
``python -m celery`` or ``dramatiq`` does once all is imported: at the framework's own ``main``.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

MOST_BYTES = 1 << 17
"""A request's size at the most: the environment is the largest part of it."""
PRELOADED = {
    "celery.__main__": (
        "celery.apps.worker",
        "celery.backends.redis",
        "celery.bin.celery",
        "celery.concurrency.prefork",
        "celery.concurrency.thread",
        "celery.worker.consumer",
        "celery.worker.worker",
        "fairqueue_celery.backend",
        "fairqueue_celery.transport",
    ),
    "dramatiq.cli": (
        "dramatiq.brokers.redis",
        "dramatiq.results.backends.redis",
        "fairqueue_dramatiq",
    ),
}
"""What a fork server imports, by the module whose ``main`` its forks run."""


class ForkedProcess:
    """The part of subprocess.Popen that tests use."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.code_of(self.pid, seconds=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._server.code_of(self.pid, seconds=timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """One process that forks on request and tells how each fork ended."""

    def __init__(self, module: str) -> None:
        self._socket, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._codes: dict[int, int] = {}
        self._lock = threading.Lock()
        with its_end:
            command = [sys.executable, __file__, module, str(its_end.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[its_end.fileno()])

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: IO[str],
        start_new_session: bool = False,
    ) -> ForkedProcess:
        """Run the framework's main with these arguments, as a process of its own."""
        request = {
            "argv": list(arguments),
            "cwd": str(cwd),
            "env": dict(env),
            "new_session": start_new_session,
        }
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [output.fileno()])
            while True:
                told = self._hear(None)
                if told is not None and "code" not in told:
                    return ForkedProcess(self, told["pid"])

    def code_of(self, pid: int, *, seconds: float | None) -> int | None:
        """Wait for a fork's exit code; None: the fork still runs after this many seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._lock:
            while pid not in self._codes:
                left = None if until is None else max(0.0, until - time.monotonic())
                if self._hear(left) is None:
                    return None
            return self._codes[pid]

    def _hear(self, seconds: float | None) -> dict[str, int] | None:
        if not select.select([self._socket], [], [], seconds)[0]:
            return None
        told: dict[str, int] = json.loads(self._socket.recv(MOST_BYTES))
        if "code" in told:
            self._codes[told["pid"]] = told["code"]
        return told

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


class WorkerProcess:
    """The main process of a worker, and its log."""

    def __init__(
        self,
        program: Sequence[str],
        *arguments: str,
        main: str,
        argv0: str,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        forks: bool = True,
        start_new_session: bool = False,
    ) -> None:
        """Fork it at the ``main`` of that module where a fork is faithful; else run the program."""
        self.process: ForkedProcess | subprocess.Popen[bytes]
        self.log = log
        with log.open("w") as output:
            if forks and is_faithful(env):
                self.process = fork_server(main).start(
                    [argv0, *arguments],
                    cwd=cwd,
                    env=env,
                    output=output,
                    start_new_session=start_new_session,
                )
            else:
                self.process = subprocess.Popen(
                    [*program, *arguments],
                    cwd=cwd,
                    env=env,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=start_new_session,
                )

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, *, seconds: float = 60.0) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the worker did not stop:\n{self.log.read_text()}") from None


@cache
def fork_server(module: str) -> ForkServer:
    """The fork server of this test process for one framework's main."""
    server = ForkServer(module)
    atexit.register(server.close)
    return server


def is_faithful(env: Mapping[str, str]) -> bool:
    """Whether a fork runs as a new interpreter with this environment would."""
    return {name: value for name, value in env.items() if name.startswith("PYTHON")} == {
        name: value for name, value in os.environ.items() if name.startswith("PYTHON")
    }


def _serve(link: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Return the request in a fork.

    None: the tests are over, and so are the forks that they left.
    """
    living: set[int] = set()
    wake_up, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([link.fileno(), wake_up], [], [])
        if wake_up in ready:
            os.read(wake_up, 1024)
            living -= _tell_the_ended(link)
        if link.fileno() not in ready:
            continue
        packet, files, _, _ = socket.recv_fds(link, MOST_BYTES, 1)
        if not packet:
            for pid in living:
                os.kill(pid, signal.SIGKILL)
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(wake_up)
            os.close(woken)
            link.close()
            return {**json.loads(packet), "output": files[0]}
        os.close(files[0])
        living.add(pid)
        link.send(json.dumps({"pid": pid}).encode())


def _tell_the_ended(link: socket.socket) -> set[int]:
    ended: set[int] = set()
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.add(pid)
        told = {"pid": pid, "code": os.waitstatus_to_exitcode(status)}
        with contextlib.suppress(BrokenPipeError):  # the tests are over
            link.send(json.dumps(told).encode())


def _become(request: Mapping[str, Any]) -> None:
    if request["new_session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(request["output"], 1)
    os.dup2(request["output"], 2)
    os.close(request["output"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = request["argv"]
    sys.path[0] = request["cwd"]


def _main(module: str, file_number: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    program = importlib.import_module(module)
    for name in PRELOADED[module]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    request = _serve(socket.socket(fileno=file_number))
    if request is not None:
        _become(request)
        sys.exit(program.main())


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
