"""Writes and reads what is noted for people: acts, ended jobs, and what happened by minute."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

from fairqueue._activity import HAPPENINGS, OTHER, WAITS, Happened
from fairqueue._keys import decode, encode_task

T = TypeVar("T")

HAPPENED = struct.Struct(f"<{len(HAPPENINGS) - 1}Id{len(WAITS) + 1}Ix")


def read_lines(made: Callable[..., T], lines: Iterable[bytes]) -> list[T]:
    """Read lines of JSON, each behind its time if it has one; what is damaged is left out."""
    found = []
    for line in lines:
        before, brace, text = line.partition(b"{")
        with suppress(ValueError, TypeError):
            found.append(made(*map(float, before.split()), **json.loads(brace + text)))
    return found


def happened_text(names: Sequence[str | None], counts: Sequence[int]) -> bytes:
    """Write what happened to jobs of a workspace, queue and task."""
    field = " ".join("*" if name is OTHER else encode_task(name) for name in names)
    return f"{field}\n".encode() + HAPPENED.pack(*counts)


def read_happened(rows: bytes) -> Happened:
    """Read what happened; what is damaged is left out."""
    found: Happened = []
    at = 0
    with suppress(ValueError, struct.error):  # the end is missing
        while at < len(rows):
            ends = rows.index(b"\n", at)
            counts = HAPPENED.unpack_from(rows, ends + 1)
            with suppress(ValueError):
                found.append((_names(rows[at:ends]), counts))
            at = ends + 1 + HAPPENED.size
    return found


@lru_cache(4096)  # each minute has the same ones
def _names(field: bytes) -> tuple[str | None, str | None, str | None]:
    workspace, queue, task = (
        OTHER if name == "*" else decode(name) for name in field.decode().split(" ")
    )
    return workspace, queue, task
