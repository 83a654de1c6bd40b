"""What a schedule publishes, and where it is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fairqueue._connection import Connection
from fairqueue._keys import decode
from fairqueue._settings import Settings
from fairqueue._stores.store import StoreBase
from fairqueue.errors import ConfigurationError
from fairqueue.operate.registry import Registry
from fairqueue.schedules._timing import Schedule

STORED, WANTED, TOO_MANY, OF_ANOTHER = 1, 2, -1, -2
MOST = 10_000  # as in lua/api/put_schedule.lua
MOST_BYTES = 65_536  # it is read with each tick
PUT_BY_CALL = "-"


class Core(NamedTuple):
    """What schedules need of a queue."""

    connection: Connection
    settings: Settings
    publish_many: Callable[..., object]
    registry: Registry


class Placed(NamedTuple):
    """A schedule at its place, and what each of its ticks publishes."""

    runner: str
    """Which workers publish them."""
    workspace: str
    name: str
    task: str
    """For people."""
    call: Mapping[str, Any]
    """What the runner publishes, as JSON."""

    def put(self, store: StoreBase, when: Schedule, boot: str) -> tuple[int, str]:
        """Store it; return a status, and the time by the store's clock.

        ``boot``: when this process began by that clock, empty in its first call, or PUT_BY_CALL.
        """
        delay = f"{when.delay(self.workspace, self.name):.3f}"
        fields = {"runner": self.runner, "delay": delay, "definition": self._definition(when)}
        where = self.workspace, self.name
        status, now = told = store.put_schedule(*where, **fields, next="", boot=boot)
        if status == WANTED:
            first = when.after(float(now))
            if first is None:
                raise ConfigurationError(f"schedule {self.name!r} is never due: until is over")
            told = store.put_schedule(*where, **fields, next=f"{first:.3f}", boot=boot or now)
        status, other = told
        if status == OF_ANOTHER:
            raise ConfigurationError(
                f"the workers of {decode(other)!r} declare schedule {self.name!r} of workspace "
                f"{self.workspace!r}, too: rename one of the two, or give each app a namespace"
            )
        if status == TOO_MANY:
            raise ConfigurationError(
                f"schedule {self.name!r}: workspace {self.workspace!r} has {MOST:,}, which is the "
                "most: remove some"
            )
        return status, now

    def _definition(self, when: Schedule) -> str:
        read = {"when": when.stored(), "task": self.task, "call": self.call}
        try:
            text = json.dumps(read, sort_keys=True, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"schedule {self.name!r}: what it publishes must be JSON, and {error}"
            ) from None
        if len(text) > MOST_BYTES:
            raise ConfigurationError(
                f"schedule {self.name!r}: what it publishes has {len(text):,} bytes, at most "
                f"{MOST_BYTES:,} are allowed: store it elsewhere, and publish its key"
            )
        return text
