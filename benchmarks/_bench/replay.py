"""Commands that are packed beforehand and sent in pipelines, so that Redis waits for no client."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from fairqueue.testing import EmbeddedServer

Command = Sequence[bytes | str | int | float]

AT_ONCE = 50
"""Commands in one pipeline."""

END = b"end of pipeline"


def _packed(command: Command) -> bytes:
    values = [value if isinstance(value, bytes) else str(value).encode() for value in command]
    head = b"*%d\r\n" % len(values)
    return head + b"".join(b"$%d\r\n%b\r\n" % (len(value), value) for value in values)


class Replay:
    """Packed commands. Each pipeline ends in an ECHO, the only reply that is looked for."""

    def __init__(self, commands: Sequence[Command]) -> None:
        self._pipelines = [
            b"".join(map(_packed, (*commands[first : first + AT_ONCE], ("ECHO", END))))
            for first in range(0, len(commands), AT_ONCE)
        ]

    def play(self, server: EmbeddedServer) -> None:
        """Send all of them; while Redis is at one pipeline, the next is under way."""
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(server.socket_path)
            unread = b""
            for number, pipeline in enumerate([*self._pipelines, b""]):
                line.sendall(pipeline)
                while number and END not in unread:
                    unread = unread[-len(END) :] + line.recv(1 << 20)
                unread = unread.partition(END)[2]
