"""Warns an operator who limits or pauses what no job has named: likely a typo."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from fairqueue._keys import decode, encode
from fairqueue._similar_names import folded
from fairqueue._stores.store import Store

log = logging.getLogger("fairqueue.admin")

HASHES = {
    "workspace": ("workspaces", "dead_workspaces", "limits"),
    "queue": ("nodes", "kinds", "limits"),
    "task": ("tasks", "limits"),
}
"""Where names of a scope stand."""


def warn_of_unseen(store: Store, scope: str, name: str) -> None:
    """Log a warning if no job, limit or pause names this workspace, queue or task now.

    It is no error: limits may be set before the first job comes.
    """
    if _is_used(store, scope, name):
        return
    known = set(_known(store, scope))
    if name in known:
        return
    close = get_close_matches(folded(name), set(map(folded, known)), n=1)
    similar = sorted(each for each in known if [folded(each)] == close)
    remedy = f"; did you mean {similar[0]!r}?" if similar else ""
    log.warning("no job, limit or pause names the %s %r so far%s", scope, name, remedy)


def _is_used(store: Store, scope: str, name: str) -> bool:
    """Answer the common case without reading all names: a job has named it."""
    engine = store.engine
    key = engine.keys.key(HASHES[scope][0])
    return bool(engine.command("HEXISTS", key, encode(name)))


def _known(store: Store, scope: str) -> Iterator[str]:
    for kind in HASHES[scope]:
        found = _limited(store, scope) if kind == "limits" else _members(store, kind)
        names = (name.removeprefix(b"!") for name in found if not name.startswith(b"#"))
        yield from map(decode, names)


def _members(store: Store, kind: str) -> Iterable[bytes]:
    key, engine = store.engine.keys.key(kind), store.engine
    if kind == "dead_workspaces":
        return engine.command("ZRANGE", key, 0, -1)  # type: ignore[no-any-return]
    return engine.command("HKEYS", key)  # type: ignore[no-any-return]


def _limited(store: Store, scope: str) -> Iterator[bytes]:
    """Names with limits; of a workspace also the groups that others name."""
    if scope == "task":
        return  # its limits name it by number, so it is among the tasks
    key, engine = store.engine.keys.key("limits"), store.engine
    fields = engine.command("HKEYS", key)
    for field in fields:
        _, _, named = field.partition(b":")
        of, _, name = named.partition(b":")
        if of.decode() == scope:
            yield name
    if scope == "workspace" and fields:
        for text in engine.command("HMGET", key, *fields):
            words = (word.partition(b"=") for word in text.split())
            yield from (value for what, _, value in words if what == b"parent")
