"""Limits of every scope: which an operator may edit in place, those in force, and new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from fairqueue._queue import FairQueue
from fairqueue._settings import (
    DefaultSettings,
    QueueSettings,
    TaskSettings,
    TotalSettings,
    WorkspaceSettings,
)
from fairqueue._types import Limit
from fairqueue.errors import ConfigurationError
from fairqueue.plain import printable

MODELS: Mapping[str, type[BaseModel]] = {
    "workspace": WorkspaceSettings,
    "queue": QueueSettings,
    "task": TaskSettings,
    "default": DefaultSettings,
    "total": TotalSettings,
}
WORDS = {"default": "each workspace without its own", "total": "everything together"}
"""What limits apply to that has no name."""


class LimitScope:
    """What limits apply to, as a form or an address names it."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.kind, self.name = given.get("scope", "workspace"), given.get("name", "")
        if self.kind not in MODELS:
            raise ConfigurationError(f"limits are those of {', '.join(MODELS)}, not {self.kind!r}")
        if self.kind in WORDS:
            self.name = ""

    def __str__(self) -> str:
        """The scope in words, safe to print."""
        return WORDS.get(self.kind) or f"{self.kind} {printable(self.name)}"

    @property
    def edited(self) -> tuple[str, ...]:
        """The limits that may be set here."""
        return tuple(MODELS[self.kind].model_fields)

    def _call(self, queue: FairQueue, verb: str, **limits: str) -> Any:
        of = "limits" if self.kind == "workspace" else f"{self.kind}_limits"
        name = () if self.kind in WORDS else (self.name,)
        return getattr(queue.admin, f"{verb}{of}")(*name, **limits)

    def in_force(self, queue: FairQueue) -> Mapping[str, Limit]:
        """Return the limits in force, each with its source."""
        found: Mapping[str, Limit] = self._call(queue, "")
        return found

    def set(self, queue: FairQueue, limits: Mapping[str, str]) -> None:
        """Set live limits."""
        self._call(queue, "set_", **limits)

    def unset(self, queue: FairQueue) -> None:
        """Remove the live limits."""
        self._call(queue, "unset_")
