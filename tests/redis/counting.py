"""Counts the commands that Redis runs: a cost that no busy machine changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from fairqueue._stores.store import Store


def commands(client: redis.Redis, act: Callable[[], object]) -> dict[str, int]:
    """Count the commands that an action runs, by name."""
    client.config_resetstat()
    act()
    stats: dict[str, dict[str, Any]] = client.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): int(row["calls"]) for name, row in stats.items()}
    return {name: n for name, n in calls.items() if not name.startswith(("config", "info"))}


@dataclass(frozen=True)
class Costs:
    """What actions on a store cost, in commands of its server."""

    client: redis.Redis
    store: Store

    def of(self, act: Callable[[], object]) -> dict[str, int]:
        """Count the commands that an action runs, by name."""
        return commands(self.client, act)

    def total(self, act: Callable[[], object]) -> int:
        """Count the commands that an action runs."""
        return sum(self.of(act).values())

    def longest_page(self, act: Callable[[], object]) -> int:
        """Return the most commands that one script of an action runs."""
        engine, pages = self.store.engine, [0]
        run = engine._run

        def counted(operation: str, values: Any) -> Any:
            reply = []
            pages.append(self.total(lambda: reply.append(run(operation, values))))
            return reply[0]

        engine._run = counted  # type: ignore[method-assign]
        act()
        engine._run = run  # type: ignore[method-assign]
        return max(pages)
