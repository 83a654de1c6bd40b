"""The same app, in a worker that gets SIGQUIT while it writes its first job to a process."""

from __future__ import annotations

import os
import signal

from billiard import connection
from shop import app  # type: ignore[import-not-found] # noqa: F401

write = connection.send_offset


def write_and_stop(*args: object) -> int:
    connection.send_offset = write
    written: int = write(*args)  # the length of the job, and not yet the job
    os.kill(os.getpid(), signal.SIGQUIT)
    return written


connection.send_offset = write_and_stop
