"""How an idle owner waits for a wake-up; each engine has its own waiter."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from random import uniform

from fairqueue._utils import is_readable

SLACK_SECONDS = 5.0
"""How long an armed wait may take to end after its time is up."""
POLL_SECONDS = 3.0
POLL_LEASES = 0.3  # idle claimers call more often than every third of a lease
JITTER = (0.75, 1.0)


def poll_seconds(lease_seconds: float, shards: int = 1) -> float:
    """Return the safety poll, jittered so that claimers do not call together.

    With several ``shards`` on one server, each is polled less often.
    """
    return min(POLL_SECONDS * shards, POLL_LEASES * lease_seconds) * uniform(*JITTER)  # noqa: S311


class Waiter(ABC):
    """Waits for a wake-up of some queues, blocking or in an event loop."""

    answered_by: float
    """By when an armed wait ends, by the monotonic clock: after that its link is dead."""
    taken = ""
    """The key of the last token that ended a wait."""

    @abstractmethod
    def arm(self, seconds: float) -> None:
        """Start waiting for at most ``seconds``. Arming an armed waiter has no effect."""

    @abstractmethod
    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the wait ends. Valid while armed."""

    @abstractmethod
    def collect(self) -> bool:
        """End an armed wait that became readable; True: woken, False: timed out."""

    @abstractmethod
    def disarm(self) -> bool:
        """End the wait before its time; True: woken meanwhile."""

    def wait(self, seconds: float) -> bool:
        """Arm, block and collect: True if woken within ``seconds``."""
        self.arm(seconds)
        left = max(0.0, self.answered_by - time.monotonic())
        return self.collect() if is_readable([self.fileno()], left) else self.disarm()

    @abstractmethod
    def close(self) -> None:
        """Stop waiting and free the descriptor; a wake-up already received is passed on."""
