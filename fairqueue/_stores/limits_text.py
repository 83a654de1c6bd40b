"""How limits are written in a store: ``name=value`` words under ``source:scope:name``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any

from fairqueue._keys import decode, encode, encode_task
from fairqueue._lazy import rows
from fairqueue._types import KEPT_COUNT, KEPT_SECONDS, Limits, StoredLimits
from fairqueue.errors import ConfigurationError
from fairqueue.plain import moment, printable

TEXTS = frozenset({"parent", "fairness"})
DIGEST_BYTES = 16
PARTS = {
    "total": ("capacity", "requests"),
    "queue_default": ("capacity",),
    "queue": ("capacity",),
}
"""The limits of which each shard has a fixed part."""


def text_of(limits: Limits) -> str:
    """Write the limits that are set."""
    named = ((f.name, getattr(limits, f.name)) for f in fields(limits))
    return " ".join(f"{name}={_word(value)}" for name, value in named if value is not None)


def too_high(name: str, limits: Limits, most: int) -> ConfigurationError:
    """Return the error for a reserve above the workspace's concurrency."""
    return ConfigurationError(
        f"the reserve of workspace {name!r} would be {limits.reserve}, above its concurrency of "
        f"{most}: lower the reserve, or raise the concurrency"
    )


def _word(value: float | str) -> str:
    return encode(value) if isinstance(value, str) else repr(value)


def _value(name: str, word: str) -> Any:
    if name in TEXTS:
        return decode(word)
    return int(word) if word.isdigit() else float(word)


def stamp_in(text: str) -> tuple[float, str] | None:
    """Read when limits were stored, and by which process; None: not known."""
    at, _, process = text.partition(" ")
    return (float(at), decode(process)) if process else None


INTERNAL = frozenset({"named", "exempt"})
SOURCES = {"provider": "limit_provider"}
SCOPES = {
    "default": "the default of workspaces",
    "queue_default": "the default of queues",
    "total": "the total",
    "observe": "enforce",
    "provider": "limit_provider",
}


def replaced(change: Sequence[bytes]) -> str:
    """Yield a sentence about each limit that a configuration has replaced."""
    field, text, before, stamp = (part.decode() for part in change)
    _, scope, name = field.split(":", 2)
    named = decode(name)
    new, old = _shown(text), _shown(before)
    changed = [limit for limit in {**old, **new} if old.get(limit) != new.get(limit)]
    values = [f"{limit} {old.get(limit, 'none')} → {new.get(limit, 'none')}" for limit in changed]
    known = stamp_in(stamp)
    by = f" (stored by {printable(known[1])} at {moment(known[0])})" if known else ""
    where = SCOPES.get(scope) or f"{scope} {named!r}"
    return f"{where}: {', '.join(values) or 'named'}{by}"


def _words_in(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split())


def _shown(text: str) -> dict[str, str]:
    return {name: printable(decode(n)) for name, n in _words_in(text).items() if name != "named"}


def row(source: str, scope: str, name: str, text: bytes, stamp: bytes) -> rows.StoredLimitsRow:
    """Read the limits that a source has stored."""
    words = _words_in(text.decode()).items()
    limits = {limit: _value(limit, value) for limit, value in words if limit not in INTERNAL}
    known = stamp_in(stamp.decode()) or (None, None)
    return rows.StoredLimitsRow(source, scope, name, limits, *known)


def named(field: bytes, text: bytes, stamp: bytes) -> rows.StoredLimitsRow | None:
    """Read one field of limits with its name; None: it is a pause or a mark, or sets nothing."""
    source, scope, name = [*field.decode().split(":", 2), "", ""][:3]
    if source == "pause" or not scope:
        return None
    found = row(SOURCES.get(source, source), scope, decode(name), text, stamp)
    return found if found.limits else None


def _default(stored: StoredLimits) -> str:
    limits = text_of(stored.default)
    named = limits or stored.default_workspace != StoredLimits().default_workspace
    exempt = f"exempt={encode(stored.default_workspace)}" if named else ""
    fairness = f"fairness={stored.fairness}" if stored.fairness != "time" else ""
    return " ".join(filter(None, (exempt, fairness, limits)))


def _fields(stored: StoredLimits) -> Iterator[tuple[str, str]]:
    yield "configured:default:", _default(stored)
    yield "configured:total:", text_of(stored.total)
    yield "configured:observe:", "" if stored.enforced else "observe=1"
    yield "configured:provider:", "on=1" if stored.provided else ""
    yield "configured:queue_default:", text_of(stored.queue_default)
    for name, limits in stored.workspaces.items():
        yield f"configured:workspace:{encode(name)}", text_of(limits) or "named=1"
    for name, limits in stored.queues.items():
        yield f"configured:queue:{encode(name)}", text_of(limits)
    for name, limits in stored.tasks.items():
        yield f"configured:task:{encode_task(name)}", text_of(limits)


def retention(stored: StoredLimits) -> str:
    """Write the retention of dead letters; empty if it is the default."""
    kept = stored.dead_letter_seconds, stored.dead_letter_count
    if kept == (KEPT_SECONDS, KEPT_COUNT):
        return ""
    return " ".join("-" if bound is None else repr(bound) for bound in kept)


def configured(stored: StoredLimits) -> Iterator[tuple[str, str]]:
    """Yield every field that a configuration sets; none if it sets no limit."""
    yield from ((field, text) for field, text in _fields(stored) if text)


def digest(stored: StoredLimits) -> str:
    """Return a digest of a configuration; empty: it sets no limit."""
    text = "".join(f"{field} {text}\n" for field, text in configured(stored))
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest() * bool(text)
