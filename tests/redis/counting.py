"""Counts the commands that Redis runs: a cost that no busy machine changes."""

from __future__ import annotations

from collections.abc import Callable
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


def longest_page(client: redis.Redis, store: Store, act: Callable[[], object]) -> int:
    """Return the most commands that one script of an action runs."""
    engine, pages = store.engine, [0]
    run = engine._run

    def counted(operation: str, values: Any) -> Any:
        reply = []
        ran = commands(client, lambda: reply.append(run(operation, values)))
        pages.append(sum(ran.values()))
        return reply[0]

    engine._run = counted  # type: ignore[method-assign]
    act()
    engine._run = run  # type: ignore[method-assign]
    return max(pages)
