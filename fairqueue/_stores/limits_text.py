"""How limits are written in a store: ``name=value`` words under ``source:scope:name``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from fairqueue._keys import decode, encode
from fairqueue._types import KEPT_COUNT, KEPT_SECONDS, Limits, StoredLimits
from fairqueue.errors import ConfigurationError


def text_of(limits: Limits) -> str:
    """Write what is set."""
    named = ((f.name, getattr(limits, f.name)) for f in fields(limits))
    return " ".join(f"{name}={_word(value)}" for name, value in named if value is not None)


def too_high(name: str, limits: Limits, most: int) -> ConfigurationError:
    """Say that a reserve is above what the workspace may run."""
    return ConfigurationError(
        f"the reserve of workspace {name!r} would be {limits.reserve}, above its concurrency of "
        f"{most}: lower the reserve, or raise the concurrency"
    )


def _word(value: float | str) -> str:
    return encode(value) if isinstance(value, str) else repr(value)


def limits_in(text: str) -> Limits:
    """Read back what is set."""
    words = dict(word.split("=", 1) for word in text.split())
    named = {f.name: words[f.name] for f in fields(Limits) if f.name in words}
    return Limits(**{name: _value(name, word) for name, word in named.items()})


def _value(name: str, word: str) -> Any:
    if name == "parent":
        return decode(word)
    return int(word) if word.isdigit() else float(word)


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
        yield f"configured:task:{encode(name)}", text_of(limits)


def retention(stored: StoredLimits) -> str:
    """How long and how many dead letters are kept; empty where nothing is set."""
    kept = stored.dead_letter_seconds, stored.dead_letter_count
    if kept == (KEPT_SECONDS, KEPT_COUNT):
        return ""
    return " ".join("-" if bound is None else repr(bound) for bound in kept)


def configured(stored: StoredLimits) -> Iterator[tuple[str, str]]:
    """Give every field that a configuration sets; none at all if it sets no limit."""
    yield from ((field, text) for field, text in _fields(stored) if text)
