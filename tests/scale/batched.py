"""Makes many calls in one round trip, so that a server's time for each is that of a full server."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import redis

from fairqueue._stores.redis import RedisEngine


class Batched(RedisEngine):
    """Packs the calls of a batch, and gives the same calls their replies when they come again.

    The first time each call gets a reply that was real once: what it says counts for nothing.
    """

    def __init__(self, client: redis.Redis, *, namespace: str) -> None:
        self._pipe = client.pipeline(transaction=False)
        super().__init__(client, namespace=namespace)
        self._packing = RedisEngine(self._pipe, namespace=namespace)
        self._replies: deque[Any] | None = None
        self._is_packing = False
        self._seen: dict[str, Any] = {}

    def _run(self, operation: str, values: Sequence[bytes]) -> Any:
        if self._replies is not None:
            return self._replies.popleft()
        if not self._is_packing:
            self._seen[operation] = reply = super()._run(operation, values)
            return reply
        self._packing._run(operation, values)
        return self._seen[operation]

    def pack(self, calls: Sequence[Callable[[], object]]) -> None:
        """Prepare these calls; nothing is sent."""
        self._is_packing = True
        for call in calls:
            call()
        self._is_packing = False
        self._pipe.load_scripts()

    def send(self) -> None:
        """Send them, and keep their replies."""
        self._replies = deque(self._pipe.execute())

    def replies_to(self, calls: Sequence[Callable[[], object]]) -> list[Any]:
        """Make the same calls again: each reads its reply."""
        found = [call() for call in calls]
        self._replies = None
        return found
