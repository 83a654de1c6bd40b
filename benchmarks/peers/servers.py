"""The servers of the peers: one of its own for each fleet, ended with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Protocol

from fairqueue.testing import Child, EmbeddedServer


class Server(Protocol):
    """What a fleet needs of a server."""

    def url(self, scheme: str, query: str) -> str:
        """The URL that the peer is given."""

    def used_bytes(self) -> int:
        """What all its data takes, by the server's own count."""

    def close(self) -> None:
        """End it."""


class RedisServer:
    """Redis without persistence, over TCP."""

    def __init__(self) -> None:
        self._server = EmbeddedServer(tcp=True)
        self._server.start()

    def url(self, scheme: str, query: str) -> str:
        return f"{scheme}://{self._server.tcp_address}/0{query}"

    def version(self) -> str:
        return self._server.version

    def used_bytes(self) -> int:
        with self._server.client() as client:
            used = client.info("memory")
            return int(used["used_memory"] - used["mem_clients_normal"])

    def close(self) -> None:
        self._server.stop()


class PostgresServer:
    """PostgreSQL with the defaults of initdb, so each commit is on disk before it is confirmed."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="peers-postgres-"))
        data = self._folder / "data"
        self._user = {"user": "postgres"} if os.getuid() == 0 else {}  # it refuses to run as root
        if self._user:
            shutil.chown(self._folder, "postgres")
        self._run("initdb", "--auth=trust", "--username=postgres", f"--pgdata={data}")
        self._port = _free_port()
        command = [_program("postgres"), "-D", data, "-p", self._port, "-k", self._folder]
        if self._user:
            groups = "--regid=postgres", "--clear-groups"
            command = ["setpriv", "--reuid=postgres", *groups, *command]
        self._child = Child([str(part) for part in command], log=self._folder / "log")
        self._wait()

    def _run(self, program: str, *arguments: str) -> str:
        command = [_program(program), *arguments]
        done = subprocess.run(
            command, **self._user, cwd="/", check=True, capture_output=True, text=True
        )
        return done.stdout

    def _ask(self, sql: str) -> str:
        at = ["-h", "127.0.0.1", "-p", str(self._port), "-U", "postgres"]
        return self._run("psql", *at, "-Atc", sql).strip()

    def _wait(self) -> None:
        for _ in range(100):
            try:
                self._ask("SELECT 1")
            except subprocess.CalledProcessError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError((self._folder / "log").read_text(errors="replace"))

    def url(self, scheme: str, query: str) -> str:
        return f"{scheme}://postgres@127.0.0.1:{self._port}/postgres{query}"

    def used_bytes(self) -> int:
        return int(self._ask("SELECT pg_database_size('postgres')"))

    def close(self) -> None:
        self._child.end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _program(name: str) -> str:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else str(shutil.which(name) or name)


def versions() -> str:
    """Return the versions of the servers that are there."""
    with contextlib.closing(RedisServer()) as redis:
        found = [redis.version()]
    with contextlib.suppress(FileNotFoundError):
        said = subprocess.check_output([_program("postgres"), "-V"], text=True)
        found.append("PostgreSQL " + said.split()[2])
    return ", ".join(found)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
