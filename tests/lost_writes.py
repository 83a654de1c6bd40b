"""Takes the keys of a namespace back to an earlier state, as a replica that lags behind does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairqueue._stores.engine import Engine, Entry

KEPT_SECONDS = 600  # for keys that had a time to live


def restore(engine: Engine, entries: list[Entry]) -> None:
    """Make the namespace hold these entries and nothing else."""
    for entry in list(engine.dump()):
        engine.command("DEL", entry.key)
    for entry in entries:
        _write(engine, entry.key, entry.value)
        if entry.expires:
            engine.command("EXPIRE", entry.key, KEPT_SECONDS)


def _write(engine: Engine, key: bytes, value: Any) -> None:
    if isinstance(value, bytes):
        engine.command("SET", key, value)
    elif isinstance(value, list):
        engine.command("RPUSH", key, *value)
    elif isinstance(value, set):
        engine.command("SADD", key, *sorted(value))
    elif isinstance(next(iter(value.values())), float):
        for member, score in value.items():
            engine.command("ZADD", key, format(score, ".17g"), member)
    else:
        for field, text in value.items():
            engine.command("HSET", key, field, text)


@contextmanager
def lost_writes(engine: Engine) -> Iterator[None]:
    """Lose everything that is written inside the block."""
    entries = list(engine.dump())
    yield
    restore(engine, entries)
