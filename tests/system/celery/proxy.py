"""Broken links: a TCP proxy before a Redis server that can go silent, and cut connections."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator

from fairqueue.testing import EmbeddedServer

CHUNK_BYTES = 65536
LOOK_EVERY_SECONDS = 0.02


class SilentProxy:
    """Forwards every connection to a unix socket, unless it is silent."""

    def __init__(self, socket_path: str) -> None:
        self._upstream = socket_path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.silent = False
        self.holding: bytes | None = None
        """While set, what the server sends is held back from a chunk that contains this."""
        self.held = False
        """Whether something was held back."""
        self.cutting: bytes | None = None
        """What a client sends with this in it is passed on, and its connection cut; once."""
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, contextlib.suppress(OSError):
            server.connect(self._upstream)
            while not self._closed and self._forward({client: server, server: client}):
                pass

    def _forward(self, other: dict[socket.socket, socket.socket]) -> bool:
        """Whether both ends are still open."""
        readable, _, _ = select.select(list(other), [], [], LOOK_EVERY_SECONDS)
        if self.silent:
            time.sleep(LOOK_EVERY_SECONDS)
            return True
        for end in readable:
            data = end.recv(CHUNK_BYTES)
            if not data:
                return False
            if end.family == socket.AF_UNIX:
                self._hold(data)
            other[end].sendall(data)
            if self.cutting is not None and self.cutting in data:
                self.cutting = None
                time.sleep(LOOK_EVERY_SECONDS * 2)
                return False
        return True

    def _hold(self, data: bytes) -> None:
        while self.holding is not None and self.holding in data and not self._closed:
            self.held = True
            time.sleep(LOOK_EVERY_SECONDS)

    def close(self) -> None:
        """Close the port; connections end soon after."""
        self._closed = True
        self._listener.close()


def kill_clients(server: EmbeddedServer) -> None:
    """Close all connections of a server, apart from this one."""
    with server.client() as client:
        for kind in ("normal", "pubsub"):
            client.client_kill_filter(_type=kind, skipme=True)


@contextlib.contextmanager
def silent_proxy(socket_path: str) -> Iterator[SilentProxy]:
    """A proxy for one test."""
    proxy = SilentProxy(socket_path)
    try:
        yield proxy
    finally:
        proxy.close()
