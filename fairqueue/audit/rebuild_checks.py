"""Checks that the rebuild can remove unused entries: each has what it needs to know."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from fairqueue._keys import decode
from fairqueue.audit.view import Audit, Found

REST_SECONDS = 600
_PROGRESS = re.compile(r"([1-9]\d*) \S+ ([\d.]+)")
_REPORT = re.compile(r"\d\S* \S+ \S+ [\d.]+")
_KIND = re.compile(r"(task|plain)(/[\d.]+)?")


def _counts_have_a_time(a: Audit) -> Iterator[Found]:
    for kind in ("lost", "observed", "without_workspace"):
        for name, text in a.space.one(kind, {}).items():
            *counts, last = text.split(" ")
            if not counts or not re.fullmatch(r"[\d.]+", last):
                told = f"{kind} of {decode(name)!r} does not say when it was last raised: {text!r}"
                yield ("field", kind, name), told


def _progress_can_be_read(a: Audit) -> Iterator[Found]:
    for fence, text in a.space.one("progress", {}).items():
        if not _REPORT.fullmatch(text):
            found = f"the progress of fence {fence} cannot be read: {text[:80]!r}"
            yield ("field", "progress", fence), found


def _unused_queues_hold_nothing(a: Audit) -> Iterator[Found]:
    for queue, node in a.space.nodes.items():
        if node.unused and any(a.space.of(kind, queue) for kind in ("jobs", "finish", "ready")):
            text = f"queue {decode(queue)!r} is marked as unused and is not empty"
            yield ("node", queue), text


def _kinds_are_known(a: Audit) -> Iterator[Found]:
    for queue, kind in a.space.one("kinds", {}).items():
        if not _KIND.fullmatch(kind):
            yield ("field", "kinds", queue), f"queue {decode(queue)!r} is of the kind {kind!r}"


def _the_rebuild_goes_on(a: Audit) -> Iterator[Found]:
    text = a.space.one("notes", {}).get("rebuild", "1 0 0")
    found = _PROGRESS.fullmatch(text)
    if not found or float(found[2]) > a.now + REST_SECONDS:
        yield ("field", "notes", "rebuild"), f"the rebuild does not go on: {text!r}"


REBUILD_CHECKS: tuple[tuple[str, Callable[[Audit], Iterator[Found]]], ...] = (
    ("I11", _counts_have_a_time),
    ("I11", _progress_can_be_read),
    ("I11", _unused_queues_hold_nothing),
    ("I11", _kinds_are_known),
    ("I11", _the_rebuild_goes_on),
)
