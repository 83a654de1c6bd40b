"""Has each write confirmed by replicas before its call returns: the setting ``min_replicas``."""

from __future__ import annotations

from typing import Any, NamedTuple

from redis.exceptions import ResponseError

MARK_MS = str(24 * 3600 * 1000)
"""How long the mark lives after it was last touched."""

REPLIES = 2
"""Number of replies to the commands behind a call."""

SHARE_OF_TIMEOUT = 0.8
"""WAIT must answer before the connection's own time-out closes it."""


class TooFewReplicas(ResponseError):
    """Too few replicas confirmed a write, or are known to be there before it was sent."""


class Replicas(NamedTuple):
    """How many replicas confirm a write, and within which time."""

    least: int = 0
    seconds: float = 1.0

    def commands(self, pool: Any, mark: str, *, is_new: bool = False) -> list[list[str]]:
        """Return the commands behind a call over a connection of this pool: a write, and WAIT.

        From Redis 7.2 on, WAIT waits only for writes of its own connection, and a repeated call may
        write nothing. So a mark gets another time to live, which a full Redis accepts. The first
        command answers 0 if there is no mark yet; with ``is_new`` it is written.
        """
        limit = pool.connection_kwargs.get("socket_timeout")
        seconds = min(self.seconds, SHARE_OF_TIMEOUT * limit) if limit else self.seconds
        wait = ["WAIT", str(self.least), str(max(1, round(seconds * 1000)))]
        return [["SET", mark, "", "PX", MARK_MS] if is_new else ["PEXPIRE", mark, MARK_MS], wait]

    def check(self, confirmed: int, *, sent: bool) -> None:
        """Raise TooFewReplicas unless enough replicas have confirmed."""
        if confirmed >= self.least:
            return
        became = (
            "the primary has it, and loses it if it fails now: repeat the call"
            if sent
            else "nothing was sent"
        )
        raise TooFewReplicas(
            f"{confirmed} of min_replicas={self.least} replicas confirmed a write in time; "
            f"{became}. Bring the replicas back, or lower min_replicas"
        )
