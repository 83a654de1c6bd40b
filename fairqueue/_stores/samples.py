"""Writes and reads a sample of the short history, one line of text.

``running queued oldest|workspace running waiting oldest|…``; the script puts the time before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from fairqueue._keys import decode, encode
from fairqueue.rows import Overview, Sample, WorkspaceSample

T = TypeVar("T")

GAP_SECONDS = 30.0
KEPT = 120  # an hour
MOST_BYTES = 262_144  # room for an hour of 24 names of 90 bytes
LIFETIME_SECONDS = 7200
KEPT_ACTS = 1000
IN_A_SAMPLE = 12  # workspaces that run most, and as many that wait most


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _number(word: str) -> float | None:
    return None if word == "-" else float(word)


def sample_of(overview: Overview) -> Sample:
    """Reduce an overview to a sample: the workspaces that run or wait most."""
    rows = overview.workspaces
    most = [
        *sorted(rows, key=lambda row: -row.running)[:IN_A_SAMPLE],
        *sorted(rows, key=lambda row: -row.waiting)[:IN_A_SAMPLE],
    ]
    kept = {row.workspace: row for row in most if row.running or row.waiting}
    waits = [row.oldest_wait_seconds for row in rows if row.oldest_wait_seconds is not None]
    return Sample(
        time=0.0,
        running=overview.running,
        queued=overview.queued,
        oldest_wait_seconds=max(waits, default=None),
        workspaces=tuple(
            WorkspaceSample(row.workspace, row.running, row.waiting, row.oldest_wait_seconds)
            for row in kept.values()
        ),
    )


def text_of(sample: Sample) -> str:
    """Write a sample, without its time."""
    rows = (
        f"{encode(row.workspace)} {row.running} {row.waiting} {_seconds(row.oldest_wait_seconds)}"
        for row in sample.workspaces
    )
    head = f"{sample.running} {sample.queued} {_seconds(sample.oldest_wait_seconds)}"
    return "|".join((head, *rows))


def read(lines: bytes) -> list[Sample]:
    """Read all samples, the oldest first; one that is damaged is left out, and audited."""
    found = map(_sample, reversed(lines.decode("utf-8", "replace").split("\n")))
    return [sample for sample in found if sample is not None]


def _sample(line: str) -> Sample | None:
    try:
        return _read(line)
    except ValueError:
        return None


def _read(line: str) -> Sample:
    head, *rows = line.split("|")
    time, running, queued, oldest = head.split(" ")
    workspaces = tuple(map(_workspace, rows))
    return Sample(float(time), int(running), int(queued), _number(oldest), workspaces)


def read_lines(made: Callable[..., T], lines: Iterable[bytes]) -> list[T]:
    """Read lines of JSON, each behind its time if it has one; what is damaged is left out."""
    found = []
    for line in lines:
        before, brace, text = line.partition(b"{")
        with suppress(ValueError, TypeError):
            found.append(made(*map(float, before.split()), **json.loads(brace + text)))
    return found


def _workspace(row: str) -> WorkspaceSample:
    name, running, waiting, oldest = row.split(" ")
    return WorkspaceSample(decode(name), int(running), int(waiting), _number(oldest))
