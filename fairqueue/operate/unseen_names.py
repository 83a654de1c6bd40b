"""Warns of names that are likely typos: that no job has named, or that differ only in case."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nlargest
from itertools import accumulate, chain, islice

from fairqueue._keys import encode_in
from fairqueue._stores.store import StoreBase
from fairqueue._types import Scope
from fairqueue._validation import MAX_BYTES, checked_scope
from fairqueue.errors import StoreUnavailable

log = logging.getLogger("fairqueue.admin")

PLACES = {
    "workspace": ("workspaces", "dead_workspaces", "limits", "schedule_times"),
    "queue": ("shard", "limits"),
    "task": ("shard",),
}
"""Keys that hold names of a scope: first those that jobs name now."""
MOST_COMPARED = 10_000
"""How many names are compared to find a similar one."""
MOST_STEPS = 50_000
"""Pairs of characters to compare: of many or long names, those that begin alike."""


def warn_of_unseen(store: StoreBase, scope: Scope) -> None:
    """Log a warning if no job, limit or pause names this workspace, queue or task now.

    It is no error: limits may be set before the first job. If one of several shards is away, there
    is no hint, so that the call can go on with the others.
    """
    if not scope.is_named:
        return
    try:
        hint = hint_of_unseen(store, *checked_scope(scope))
    except StoreUnavailable:
        if len(store.shards) == 1:
            raise
        return
    if hint is not None:
        log.warning("%s", hint)


def hint_of_unseen(store: StoreBase, scope: str, name: str) -> str | None:
    """Return a hint that nothing has this name now, with a similar one; None: it is in use."""
    if is_used(store, Scope(scope, name)):
        return None
    compared: set[str] = set()
    for known in chain.from_iterable(store.names(place, scope) for place in PLACES[scope]):
        if name in known:
            return None
        compared.update(islice(known, max(0, MOST_COMPARED - len(compared))))
    close = _closest(folded(name), set(map(folded, compared)))
    similar = sorted(each for each in compared if [folded(each)] == close)
    remedy = f"; did you mean {similar[0]!r}?" if similar else ""
    return f"no job, limit or pause names the {scope} {name!r} now{remedy}"


def _closest(name: str, names: set[str]) -> list[str]:
    """Return the most similar name, if any is similar, in a fraction of a second.

    Comparing two names takes as many steps as the product of their lengths.
    """
    if name in names:
        return [name]
    most = max(1, MOST_STEPS // max(1, len(name)) ** 2)
    if len(names) > most:
        beginnings = [*accumulate(name)]
        names = set(nlargest(most, names, key=lambda each: sum(map(each.startswith, beginnings))))
    return get_close_matches(name, names, n=1)


def hint_of_name(store: StoreBase, of: Scope) -> str | None:
    """Return a hint with a similar name, for a name without results; None: there is none."""
    scope, name = checked_scope(of)
    if not of.is_named:
        return None
    if (hint := hint_of_unseen(store, scope, name)) is not None:
        return hint
    for known in store.names(PLACES[scope][0], scope):
        for each in known:
            if each != name and folded(each) == folded(name):
                return f"there is also the {scope} {each!r}; did you mean that?"
    return None


def is_used(store: StoreBase, of: Scope) -> bool:
    """Answer the common case, that a job has named it, without reading all names.

    Nothing has a name that is too long: it may be an id or an error that someone searches for.
    """
    scope, name = of.kind, of.name
    if len(name.encode()) > MAX_BYTES[scope]:
        return False
    place, field = PLACES[scope][0], encode_in(scope, name)
    field = f"{scope}:{field}" if place == "shard" else field
    engines = (shard.engine for shard in store.shards)
    return any(each.command("HEXISTS", each.keys.key(place), field) for each in engines)


publish_log = logging.getLogger("fairqueue.publish")
MOST_REMEMBERED = 10_000
"""How many names are remembered; beyond that, warnings are repeated."""


def folded(name: str) -> str:
    """Return the same text for names that differ only in case or surrounding spaces."""
    return name.strip().casefold()


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
            publish_log.warning(
                "workspaces %r and %r differ only in case or surrounding spaces: they are two "
                "workspaces, each with limits and an order of its own",
                first,
                name,
            )
