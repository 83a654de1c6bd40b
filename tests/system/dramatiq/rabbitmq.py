"""A private RabbitMQ without systemd: own ports, own folders, ended by its process ids."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path

import pika

from fairqueue.testing import Child
from tests.nodes import free_port

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS = 180.0


def find_rabbitmq() -> bool:
    """Whether Debian's rabbitmq-server is installed."""
    return SERVER.exists() and shutil.which("epmd") is not None


class RabbitServer:
    """One broker on loopback. Its port mapper is a child process of this one, not a daemon."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fairqueue-rabbit-"))
        self.port, self._distribution, self._mapper_port = (free_port() for _ in range(3))
        mapper = {"ERL_EPMD_PORT": str(self._mapper_port), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"fq{secrets.token_hex(4)}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none"
            ),
            **mapper,
        }
        (self.folder / "env.conf").touch()
        (self.folder / "plugins").write_text("[].\n")
        self._mapper = Child(["epmd"], env=self._env, remove=self.folder)
        self._server: Child | None = None

    @property
    def url(self) -> str:
        """What a RabbitmqBroker connects to."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start, and wait until it answers."""
        log = self.folder / "output"
        self._server = Child([str(SERVER)], env=self._env, cwd=self.folder, log=log)
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if time.monotonic() > until or not self._server.running:
                raise RuntimeError(f"RabbitMQ did not start:\n{log.read_text()}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.2).close()
            pika.BlockingConnection(pika.URLParameters(self.url)).close()
        except (OSError, pika.exceptions.AMQPError):
            return False
        return True

    def kill(self) -> None:
        """End it at once; what it has on disk stays."""
        if self._server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)  # its script, and Erlang below it
            self._server.end()

    def stop(self) -> None:
        """End it and its port mapper, and remove its folder."""
        if self._server is not None:
            self._server.end(patience_seconds=20)
            self.kill()
        self._mapper.end()
        shutil.rmtree(self.folder, ignore_errors=True)
