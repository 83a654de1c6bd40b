"""Which dead letters a page shows, and a form replays or deletes: those of all workspaces."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fairqueue.errors import ConfigurationError
from fairqueue.lists import DeadFilter
from fairqueue.plain import WHEN, time_in

TEXTS = ("workspace", "queue", "task", "reason")
TIMES = ("since", "until")


def where_of(given: Mapping[str, str]) -> dict[str, str]:
    """Return what is given of that which chooses dead letters. Blanks may belong to a name."""
    texts = {name: given[name] for name in TEXTS if given.get(name)}
    return texts | {name: given[name].strip() for name in TIMES if given.get(name, "").strip()}


def filter_of(where: Mapping[str, str]) -> DeadFilter:
    """Return the filter; ConfigurationError: a time is none."""
    texts = {name: where[name] for name in TEXTS if name in where}
    times = {name: _time(name, where[name]) for name in TIMES if name in where}
    return DeadFilter(**texts, **times)  # type: ignore[arg-type]


def _time(name: str, text: str) -> float:
    found = time_in(text, time.time())
    if found is None:
        raise ConfigurationError(f"{name}: {text!r} is not {WHEN}")
    return found
