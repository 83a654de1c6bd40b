"""Finds names of workspaces that differ only in case or surrounding spaces."""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger("fairqueue.publish")

MOST_REMEMBERED = 10_000
"""How many names are remembered; beyond that, warnings are repeated."""


def folded(name: str) -> str:
    """Return the same text for names that differ only in case or surrounding spaces."""
    return name.strip().casefold()


def similar_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the groups of names that differ only in case or surrounding spaces."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(folded(name), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


class SimilarNames:
    """Warns once of each name that is similar to one of ``known`` or to an earlier one."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known = frozenset(known)
        self._reset()

    def _reset(self) -> None:
        self._seen = set(self._known)
        self._first = {folded(name): name for name in self._known}

    def note(self, name: str) -> None:
        """Note a publish's workspace."""
        if name in self._seen:
            return
        if len(self._seen) >= len(self._known) + MOST_REMEMBERED:
            self._reset()
        self._seen.add(name)
        first = self._first.setdefault(folded(name), name)
        if first != name:
            log.warning(
                "workspaces %r and %r differ only in case or surrounding spaces: they are two "
                "workspaces, each with limits and an order of its own",
                first,
                name,
            )
