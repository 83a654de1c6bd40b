"""Writes and reads what is noted for people: acts, ended jobs, and what happened by minute."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from contextlib import suppress

from fairqueue._activity import HAPPENINGS, OTHER, WAITS, Happened
from fairqueue._keys import decode, encode_task
from fairqueue.rows import Act, FinishedJob

MOST_BYTES = 262_144
KEPT_ACTS = 1000
HAPPENED = struct.Struct(f"<{len(HAPPENINGS) - 1}Id{len(WAITS) + 1}I")


def read_acts(lines: bytes) -> list[Act]:
    """Read all acts, the newest first; one that is damaged is left out."""
    found = []
    for line in lines.decode("utf-8", "replace").split("\n"):
        time, _, text = line.partition(" ")
        with suppress(ValueError, TypeError):
            found.append(Act(float(time), **json.loads(text)))
    return found


def read_finished(lines: Sequence[bytes]) -> list[FinishedJob]:
    """Read jobs that have ended; one that is damaged is left out."""
    found = []
    for line in lines:
        with suppress(ValueError, TypeError):
            found.append(FinishedJob(**json.loads(line)))
    return found


def happened_text(names: Sequence[str | None], counts: Sequence[int]) -> bytes:
    """Write what happened to jobs of a workspace, queue and task."""
    field = " ".join("*" if name is OTHER else encode_task(name) for name in names)
    return f"{field}\n".encode() + HAPPENED.pack(*counts)


def read_happened(fields: Sequence[bytes]) -> Happened:
    """Read what happened; what is damaged is left out."""
    found: Happened = []
    for field, text in zip(fields[::2], fields[1::2], strict=True):
        with suppress(ValueError, struct.error):
            workspace, queue, task = (
                OTHER if name == "*" else decode(name) for name in field.decode().split(" ")
            )
            found.append(((workspace, queue, task), [*map(int, HAPPENED.unpack(text))]))
    return found
