"""Watches from outside when the slots of workspaces are taken and freed."""

from __future__ import annotations

import threading
import time
from typing import Any

import redis

from fairqueue._keys import Keys

EVERY_SECONDS = 0.01


class SlotWatch:
    """Looks at the slots of some workspaces every hundredth of a second."""

    def __init__(self, client: redis.Redis, namespace: str, workspaces: list[str]) -> None:
        self._client = client
        keys = Keys(namespace)
        self._keys = {name: keys.key("slots", name) for name in workspaces}
        self._held: dict[str, dict[bytes, float]] = {name: {} for name in workspaces}
        """Fences in the order in which they were first seen, and when last."""
        self.most: dict[str, int] = dict.fromkeys(workspaces, 0)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> SlotWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_SECONDS):
            pipeline = self._client.pipeline(transaction=False)
            for key in self._keys.values():
                pipeline.smembers(key)
            now = time.monotonic()
            for name, fences in zip(self._keys, pipeline.execute(), strict=True):
                self._note(name, fences, now)

    def _note(self, name: str, fences: set[Any], now: float) -> None:
        self._held[name].update(dict.fromkeys(sorted(fences), now))
        self.most[name] = max(self.most[name], len(fences))

    def first_freed(self, workspace: str) -> float | None:
        """When the slot of the first job there was last seen taken."""
        return next(iter(self._held[workspace].values()), None)
