"""Broken links: a TCP proxy before a Redis server, which loses, delays or refuses what passes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from fairqueue.testing import EmbeddedServer

LOOK_EVERY_SECONDS = 0.02


class Proxy:
    """Passes bytes on, unless it is told otherwise."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        """The unix socket to which new connections lead."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.silent = False
        """While set, nothing passes, and all connections stay open."""
        self.holding: bytes | None = None
        """While set, what the server sends is held back from these bytes on."""
        self.held = False
        """Whether something was held back."""
        self._words: tuple[bytes, ...] = ()
        self.lost = 0
        self.accepted = 0
        """How many connections there were."""
        self._links: list[socket.socket] = []
        self._refused: dict[socket.socket, bytes] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_reply_to(self, *words: bytes) -> None:
        """Cut the connection instead of forwarding the reply to the next request with a word."""
        self._words = words

    def lose_reply_to_operation(self) -> None:
        """The same with the next operation, by a function or by a script."""
        self.lose_reply_to(b"FCALL", b"EVALSHA")

    def refuse(self, reply: bytes) -> None:
        """Answer so to whatever comes on the connections of now; new ones reach the server."""
        self._refused.update(dict.fromkeys(self._links, b"-" + reply + b"\r\n"))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                self.accepted += 1
                try:
                    far.connect(self.upstream)
                except OSError:  # the server is away
                    near.close()
                    far.close()
                    continue
                self._links += [near, far]
                threading.Thread(target=self._link, args=(near, far), daemon=True).start()

    def _link(self, near: socket.socket, far: socket.socket) -> None:
        cut = threading.Event()
        back = threading.Thread(target=self._pump, args=(far, near, cut), daemon=True)
        back.start()
        self._pump(near, far, cut)
        back.join()
        for end in (near, far):
            self._links.remove(end)
            self._refused.pop(end, None)
            end.close()

    def _pump(self, source: socket.socket, target: socket.socket, cut: threading.Event) -> None:
        to_server = target.family == socket.AF_UNIX
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if source in self._refused:
                    source.sendall(self._refused[source])
                    continue
                while self.silent:
                    time.sleep(LOOK_EVERY_SECONDS)
                if to_server and any(word in data for word in self._words):
                    self._words = ()
                    cut.set()
                if not to_server and cut.is_set():
                    self.lost += 1
                    break
                if not to_server:
                    data = self._pass_until_held(data, target)
                target.sendall(data)
            while self.silent:
                time.sleep(LOOK_EVERY_SECONDS)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass_until_held(self, data: bytes, target: socket.socket) -> bytes:
        """Pass on what comes before :attr:`holding`, and return the rest once it may pass."""
        if self.holding is None or self.holding not in data:
            return data
        before, held, after = data.partition(self.holding)
        target.sendall(before)
        self.held = True
        while self.silent or self.holding == held:
            time.sleep(LOOK_EVERY_SECONDS)
        return held + after

    def close(self) -> None:
        """Close all connections."""
        self.silent, self.holding = False, None
        for end in [self._listener, *self._links]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def proxy_before(server: str) -> contextlib.closing[Proxy]:
    """A proxy before the server with this unix socket, or its URL."""
    return contextlib.closing(Proxy(server.removeprefix("unix://")))


def kill_clients(server: EmbeddedServer) -> None:
    """Close all connections of a server, apart from this one."""
    with server.client() as client:
        for kind in ("normal", "pubsub"):
            client.client_kill_filter(_type=kind, skipme=True)
