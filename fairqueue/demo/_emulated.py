"""A stand-in for a Redis server, for the demo where there is no server program at all."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fairqueue.errors import StoreUnavailable
from fairqueue.testing import Child

BOOT_SECONDS = 10.0


@contextmanager
def emulated_redis() -> Iterator[str]:
    """Address of an emulation on loopback, in a process of its own. It is slow, and forgets all."""
    with TemporaryDirectory(prefix="fairqueue-") as folder:
        port, log = Path(folder, "port"), Path(folder, "log")
        child = Child([sys.executable, "-m", __name__, str(port)], log=log, remove=Path(folder))
        try:
            yield f"127.0.0.1:{_port(child, port, log)}"
        finally:
            child.end(patience_seconds=1)


def _port(child: Child, port: Path, log: Path) -> str:
    deadline = time.monotonic() + BOOT_SECONDS
    while not (port.exists() and port.read_text().endswith("\n")):
        if not child.running or time.monotonic() > deadline:
            raise StoreUnavailable(f"no Redis could be started:\n{log.read_text()[-1000:]}")
        time.sleep(0.05)
    return port.read_text().strip()


def serve(port: Path) -> None:
    """Emulate until this process is ended; write the port that was free to this file."""
    from fakeredis import TcpFakeServer  # noqa: PLC0415 - only installed where it is needed

    server = TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    port.write_text(f"{server.server_address[1]}\n")
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
