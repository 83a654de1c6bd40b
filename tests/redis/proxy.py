"""A TCP proxy before a Redis server that loses a reply on demand: the call was carried out."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Passes bytes on, until it is told to lose the reply to the next request with some word."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._word: bytes | None = None
        self.lost = 0
        self._links: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_reply_to(self, word: bytes) -> None:
        """The next request that contains this gets no reply: its connection is cut instead."""
        self._word = word

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._upstream)
                self._links += [near, far]
                cut = threading.Event()
                for source, target in ((near, far), (far, near)):
                    pump = (source, target, cut)
                    threading.Thread(target=self._pump, args=pump, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, cut: threading.Event) -> None:
        to_server = target.family == socket.AF_UNIX
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
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
        """Cut everything."""
        for end in [self._listener, *self._links]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def proxy_before(socket_path: str) -> Iterator[Proxy]:
    """A proxy before the server with this unix socket."""
    proxy = Proxy(socket_path)
    try:
        yield proxy
    finally:
        proxy.close()
