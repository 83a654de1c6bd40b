"""A TCP proxy before a Redis server: it loses a reply on demand, or lets a server step down."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Passes bytes on, unless it is told to lose a reply or to refuse."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        """The unix socket to which new connections lead."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._word: bytes | None = None
        self.lost = 0
        self._links: list[socket.socket] = []
        self._refused: dict[socket.socket, bytes] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_reply_to(self, word: bytes) -> None:
        """Cut the connection instead of forwarding the reply to the next request with this word."""
        self._word = word

    def refuse(self, reply: bytes) -> None:
        """Answer so to whatever comes on the connections of now; new ones reach the server."""
        self._refused.update(dict.fromkeys(self._links, b"-" + reply + b"\r\n"))

    @property
    def accepted(self) -> int:
        """How many connections there were."""
        return len(self._links) // 2

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.upstream)
                self._links += [near, far]
                cut = threading.Event()
                for source, target in ((near, far), (far, near)):
                    pump = (source, target, cut)
                    threading.Thread(target=self._pump, args=pump, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, cut: threading.Event) -> None:
        to_server = target.family == socket.AF_UNIX
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if source in self._refused:
                    source.sendall(self._refused[source])
                    continue
                if to_server and self._word is not None and self._word in data:
                    self._word = None
                    cut.set()
                if not to_server and cut.is_set():
                    self.lost += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections."""
        for end in [self._listener, *self._links]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def proxy_before(socket_path: str) -> Iterator[Proxy]:
    """Run a proxy before the server with this unix socket."""
    proxy = Proxy(socket_path)
    try:
        yield proxy
    finally:
        proxy.close()
