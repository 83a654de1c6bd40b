"""Serves metrics over HTTP, from a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from fairqueue._threads import in_forked_children
from fairqueue.errors import ConfigurationError


class Server:
    """Answers scrapes until it is stopped; ``url`` is where."""

    def __init__(self, server: Any, thread: threading.Thread) -> None:
        self._server, self._thread = server, thread
        host, port, *_ = server.server_address
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
        _serving.add(self)

    def wait(self) -> None:
        """Wait until it is stopped."""
        self._thread.join()

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self.close()

    def close(self) -> None:
        """Close the socket; in a forked child, which has inherited it and answers nothing."""
        _serving.discard(self)
        self._server.server_close()


def serve(collectors: Iterable[Any], bind: str, *, ports: int = 1) -> Server:
    """Serve these numbers at ``host:port``, or at the first free port of several.

    Raises ConfigurationError if none is free.
    """
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415 - an extra

    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    host, _, first = bind.rpartition(":")
    failed = OSError()
    for port in range(int(first), int(first) + ports):
        try:
            return Server(*start_http_server(port, host.strip("[]"), registry))
        except OSError as error:
            failed = error
    upto = f" to {int(first) + ports - 1}" if ports > 1 else ""
    raise ConfigurationError(
        f"metrics cannot be served at {bind}{upto}: {failed.strerror or failed}; choose another "
        "address"
    )


_serving = in_forked_children(Server.close)
